/** Reuses the memory of written frames: allocating and collecting it cost a quarter of a response. */

/** Every buffer is a multiple of it. */
const STEP_BYTES = 1_024
/** A frame of more bytes is not kept. */
const MAX_STEPS = 16
/** Kept buffers of one length; all of them together take 2.2 MiB at most. */
const MAX_KEPT = 16

export class FrameMemory {
  /** Kept buffers by length in steps. */
  readonly #kept: ArrayBufferLike[][] = Array.from({ length: MAX_STEPS + 1 }, () => [])

  /** A buffer of `length` bytes, whose content is arbitrary and holds no key. */
  take(length: number): Buffer {
    const steps = Math.ceil(length / STEP_BYTES)
    const memory = this.#kept[steps]?.pop() ?? Buffer.allocUnsafeSlow(steps * STEP_BYTES).buffer
    return Buffer.from(memory, 0, length)
  }

  /** Takes back a buffer from `take` that holds no key and is no longer in use. */
  giveBack({ buffer }: Buffer): void {
    const kept = this.#kept[buffer.byteLength / STEP_BYTES]
    if (kept && kept.length < MAX_KEPT) kept.push(buffer)
  }
}

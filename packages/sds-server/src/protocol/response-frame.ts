/** A gRPC message as it is sent, which holds private keys only while it is being written. */
import type { SealedKey } from '@livery/core'
import type { FrameMemory } from './frame-memory.ts'

/** Compressed flag and length: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
const PREFIX_BYTES = 5

/** Where in the message a key belongs, in the form in which it is sent. */
export interface KeySlot {
  readonly key: Pick<SealedKey, 'byteLength' | 'copyTo'>
  readonly offset: number
}

/**
 * Written to one stream, or to many at the same time. The keys are in it from the first `acquire` to the last `release`;
 * at all other times there are zeros in their place.
 */
export class ResponseFrame {
  /** Prefix and message. Never change it, and read it only while acquired. */
  readonly bytes: Buffer
  readonly #slots: readonly KeySlot[]
  readonly #memory: FrameMemory | undefined
  #writers = 0

  /**
   * Takes over `bytes`: the prefix, which is filled in here, and the message without its keys. `memory`: their origin, for
   * a frame that is written once.
   */
  constructor(bytes: Buffer, slots: readonly KeySlot[], memory?: FrameMemory) {
    this.bytes = bytes
    this.#slots = slots
    this.#memory = memory
    bytes.writeUInt8(0, 0)
    bytes.writeUInt32BE(bytes.length - PREFIX_BYTES, 1)
  }

  /**
   * Room for a message of `length` bytes behind its prefix: from `memory`, or newly allocated. Never from Node's pool, which
   * is not wiped.
   */
  static allocate(length: number, memory?: FrameMemory): Buffer {
    return memory ? memory.take(PREFIX_BYTES + length) : Buffer.allocUnsafeSlow(PREFIX_BYTES + length)
  }

  /** Where the message starts in what `allocate` returns. */
  static readonly start = PREFIX_BYTES

  /** Call it before each write. Throws, and acquires nothing, if a key was wiped meanwhile. */
  acquire(): this {
    if (this.#writers === 0) {
      try {
        for (const { key, offset } of this.#slots) key.copyTo(this.bytes, offset)
      } catch (error) {
        this.#wipe()
        throw error
      }
    }
    this.#writers++
    return this
  }

  /**
   * Call it once after each write, however it ended. `isWritten`: every byte was written. Otherwise HTTP/2 may still send
   * from this memory to the peer's socket, so the memory must never hold another caller's key.
   */
  release(isWritten: boolean): void {
    this.#writers--
    if (this.#writers > 0) return
    this.#wipe()
    if (isWritten) this.#memory?.giveBack(this.bytes)
  }

  #wipe(): void {
    for (const { key, offset } of this.#slots) this.bytes.fill(0, offset, offset + key.byteLength)
  }
}

/** A gRPC message as it is sent, which holds private keys only while it is being written. */
import type { SealedKey } from '@livery/core'
import type { FrameMemory } from './frame-memory.ts'

/** Compressed flag and length: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
const PREFIX_BYTES = 5

/** Where a key belongs in a frame, in the form in which it is sent. */
interface KeySlot {
  readonly key: Pick<SealedKey, 'byteLength' | 'copyTo'>
  readonly offset: number
}

/**
 * Written to one stream, or to many at the same time. The keys are in it from the first `acquire` to the last `release`;
 * at all other times there are zeros in their place.
 */
export class ResponseFrame {
  /** Prefix and message. Fill it before the first `acquire`, with zeros for the keys; then read it only while acquired. */
  readonly bytes: Buffer
  /** Filled in with `bytes`. */
  readonly slots: KeySlot[] = []
  readonly #memory: FrameMemory | undefined
  #writers = 0

  /** Has room for a message of `length` bytes. `memory`: reused for frames that are written once. */
  constructor(length: number, memory?: FrameMemory) {
    const bytes = PREFIX_BYTES + length
    // Never from Node's pool, which is not wiped.
    this.bytes = memory?.take(bytes) ?? Buffer.allocUnsafeSlow(bytes)
    this.#memory = memory
    this.bytes.writeUInt8(0, 0)
    this.bytes.writeUInt32BE(length, 1)
  }

  /** Where the message starts in `bytes`. */
  static readonly start = PREFIX_BYTES

  /** Call it before each write. Throws, and acquires nothing, if a key was wiped meanwhile. */
  acquire(): this {
    if (this.#writers === 0) {
      try {
        for (const { key, offset } of this.slots) key.copyTo(this.bytes, offset)
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
    for (const { key, offset } of this.slots) this.bytes.fill(0, offset, offset + key.byteLength)
  }
}

/** gRPC messages from the bytes of one stream: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
import { unzipSync } from 'node:zlib'
import { systemErrorCode } from '@livery/core/plugin'
import { StreamRefusal } from '../protocol/stream-refusal.ts'

const HEAD_BYTES = 5
const COMPRESSED = 1

/** One message, and where the bytes behind it begin. */
interface Assembled {
  readonly message: Buffer
  readonly end: number
}

/**
 * Copies a partial message into a separate buffer: even a one-byte slice of the connection's read buffer would keep up to
 * 64 KiB in memory.
 */
export class MessageAssembler {
  readonly #maxBytes: number
  readonly #charge: (bytes: number) => void
  /** Most messages need none: they are whole in one read. */
  #head: Buffer | undefined
  #headFilled = 0
  #body: Buffer | undefined
  #bodyFilled = 0

  /** `charge` is called with the size of a buffer before its allocation, and throws if there is no room. */
  constructor(maxBytes: number, charge: (bytes: number) => void) {
    this.#maxBytes = maxBytes
    this.#charge = charge
  }

  /** Whether a partial message is kept. */
  get isPartial(): boolean {
    return this.#headFilled > 0
  }

  /** Bytes of the buffer for the message that is not whole yet. */
  get heldBytes(): number {
    return this.#body?.length ?? 0
  }

  /**
   * The first message that ends in `data` from `start` on, or `undefined` once everything is taken in. It may be a view of
   * `data`. Throws a `StreamRefusal` for one over the limit, and what `charge` throws.
   */
  read(data: Buffer, start: number): Assembled | undefined {
    if (this.#headFilled === 0 && data.length - start >= HEAD_BYTES) {
      const bodyStart = start + HEAD_BYTES
      const end = bodyStart + this.#checkLength(data.readUInt32BE(start + 1))
      if (end <= data.length) return { message: this.#inflated(data[start], data.subarray(bodyStart, end)), end }
    }
    return this.#collect(data, start)
  }

  #collect(data: Buffer, start: number): Assembled | undefined {
    let at = start
    this.#head ??= Buffer.allocUnsafeSlow(HEAD_BYTES)
    const head = this.#head
    if (this.#headFilled < HEAD_BYTES) {
      const copied = data.copy(head, this.#headFilled, at)
      this.#headFilled += copied
      at += copied
      if (this.#headFilled < HEAD_BYTES) return undefined
      this.#begin(this.#checkLength(head.readUInt32BE(1)))
    }
    const body = this.#body
    if (!body) return undefined
    const copied = data.copy(body, this.#bodyFilled, at)
    this.#bodyFilled += copied
    if (this.#bodyFilled < body.length) return undefined
    this.#headFilled = 0
    this.#body = undefined
    return { message: this.#inflated(head[0], body), end: at + copied }
  }

  #begin(length: number): void {
    this.#charge(length)
    this.#body = Buffer.allocUnsafeSlow(length)
    this.#bodyFilled = 0
  }

  #checkLength(length: number): number {
    if (length <= this.#maxBytes) return length
    throw new StreamRefusal('resource-exhausted', `a message of ${length} bytes: at most ${this.#maxBytes} are taken`)
  }

  #inflated(flag: number | undefined, message: Buffer): Buffer {
    if (flag !== COMPRESSED) return message
    try {
      return unzipSync(message, { maxOutputLength: this.#maxBytes })
    } catch (error) {
      if (systemErrorCode(error) === 'ERR_BUFFER_TOO_LARGE')
        throw new StreamRefusal('resource-exhausted', `a message of more than ${this.#maxBytes} bytes`)
      throw new StreamRefusal('unimplemented', 'a message that is compressed, and not by gzip or deflate')
    }
  }
}

/** A copy of `before` and `data` in memory that nothing else shares: a few bytes of a read buffer or Node's pool hold 64 KiB. */
export function ownCopy(data: Buffer, before?: Buffer): Buffer {
  const start = before?.length ?? 0
  const own = Buffer.allocUnsafeSlow(start + data.length)
  if (before) own.set(before)
  own.set(data, start)
  return own
}

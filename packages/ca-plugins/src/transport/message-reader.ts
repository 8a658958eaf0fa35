/** Reads the one message of a unary gRPC answer from the data that carries it, up to a limit. */
import { status } from '@grpc/grpc-js'
import { serviceError } from './grpc-status.ts'

/** One byte that says whether the message is compressed, and four with its length. */
export const PREFIX_BYTES = 5

export class MessageReader {
  readonly #maxBytes: number
  #prefix: Buffer | undefined
  #message: Buffer | undefined
  #length = 0
  #read = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Throws a `ServiceError` if the message is too long, compressed, or not the only one. Add nothing after that. */
  add(data: Buffer): void {
    const part = this.#hasLength ? data : this.#readPrefix(data)
    if (part.length === 0) return
    if (part.length > this.#length - this.#read)
      throw serviceError(status.UNIMPLEMENTED, 'Received more than one message')
    this.#append(part)
  }

  /** Throws a `ServiceError` unless one whole message was added. */
  message(): Buffer {
    if (!this.#hasLength && this.#prefix === undefined) throw serviceError(status.UNIMPLEMENTED, 'No message received')
    if (!this.#hasLength || this.#read < this.#length)
      throw serviceError(status.INTERNAL, 'The answer ended within its message')
    return this.#message ?? Buffer.alloc(0)
  }

  get #hasLength(): boolean {
    return this.#prefix?.length === PREFIX_BYTES
  }

  /** What follows the prefix. */
  #readPrefix(data: Buffer): Buffer {
    const bytes = this.#prefix ? Buffer.concat([this.#prefix, data]) : data
    this.#prefix = bytes.subarray(0, PREFIX_BYTES)
    if (!this.#hasLength) return Buffer.alloc(0)
    this.#length = bytes.readUInt32BE(1)
    if (this.#length > this.#maxBytes)
      throw serviceError(
        status.RESOURCE_EXHAUSTED,
        `Received message larger than max (${this.#length} vs ${this.#maxBytes})`,
      )
    if (bytes[0] !== 0)
      throw serviceError(status.INTERNAL, 'Received a compressed message, which this client did not ask for')
    return bytes.subarray(PREFIX_BYTES)
  }

  /** A message mostly comes whole; the memory for a split one is taken once, so that many small pieces cost no more. */
  #append(part: Buffer): void {
    if (part.length === this.#length) this.#message = part
    else {
      this.#message ??= Buffer.allocUnsafe(this.#length)
      part.copy(this.#message, this.#read)
    }
    this.#read += part.length
  }
}

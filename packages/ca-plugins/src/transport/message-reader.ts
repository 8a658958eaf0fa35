/** Reads the one message of a unary gRPC answer from the data that carries it, up to a limit. */
import { status } from '@grpc/grpc-js'
import { serviceError } from './grpc-status.ts'

/** One byte that says whether the message is compressed, and four with its length. */
export const PREFIX_BYTES = 5

const NOTHING = Buffer.alloc(0)

export class MessageReader {
  readonly #maxBytes: number
  /** The prefix and the message. */
  #bytes: Buffer = NOTHING
  #received = 0
  /** The length of both, once the prefix is there. */
  #length: number | undefined

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Throws a `ServiceError` if the message is too long, compressed, or not the only one. Add nothing after that. */
  add(data: Buffer): void {
    if (this.#length === undefined) this.#begin(data)
    else data.copy(this.#bytes, this.#received)
    this.#received += data.length
    if (this.#length !== undefined && this.#received > this.#length)
      throw serviceError(status.UNIMPLEMENTED, 'Received more than one message')
  }

  /** Throws a `ServiceError` unless one whole message was added. */
  message(): Buffer {
    if (this.#received === 0) throw serviceError(status.UNIMPLEMENTED, 'No message received')
    if (this.#length === undefined || this.#received < this.#length)
      throw serviceError(status.INTERNAL, 'The answer ended within its message')
    return this.#bytes.subarray(PREFIX_BYTES)
  }

  /** A message mostly comes whole; the memory for a split one is taken once, so that many small pieces cost no more. */
  #begin(data: Buffer): void {
    const bytes = this.#received === 0 ? data : Buffer.concat([this.#bytes, data])
    this.#bytes = bytes
    if (bytes.length < PREFIX_BYTES) return
    const length = bytes.readUInt32BE(1)
    if (length > this.#maxBytes)
      throw serviceError(status.RESOURCE_EXHAUSTED, `Received message larger than max (${length} vs ${this.#maxBytes})`)
    if (bytes[0] !== 0)
      throw serviceError(status.INTERNAL, 'Received a compressed message, which this client did not ask for')
    this.#length = PREFIX_BYTES + length
    if (bytes.length >= this.#length) return
    this.#bytes = Buffer.allocUnsafe(this.#length)
    bytes.copy(this.#bytes)
  }
}

/** Ends one stream with a status; the connection and its other streams continue. */

/** The gRPC status that the peer gets. */
export type RefusalCode =
  | 'invalid-argument'
  | 'permission-denied'
  | 'resource-exhausted'
  | 'deadline-exceeded'
  | 'not-found'
  | 'unimplemented'
  | 'unavailable'

/** Thrown where a request cannot be served. The message is sent to the peer, so it quotes the peer only escaped. */
export class StreamRefusal extends Error {
  override readonly name = 'StreamRefusal'
  readonly code: RefusalCode

  constructor(code: RefusalCode, message: string) {
    super(message)
    this.code = code
  }
}

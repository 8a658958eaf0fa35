/** The errors that keep the server from starting or from serving a socket. */

/**
 * - `invalid-config`: an option that cannot work; the message names it.
 * - `path-too-long`: the kernel takes 107 bytes (unix(7)).
 * - `unsafe-directory`: others could replace the socket.
 * - `not-a-socket`: something else is at the path, and is left alone.
 * - `live-owner`: another process accepts connections there.
 * - `bind-failed`: the kernel refused; `cause` is its error.
 * - `closed`: the server, or its socket, was closed before it could listen.
 */
export type SdsServerErrorCode =
  | 'invalid-config'
  | 'path-too-long'
  | 'unsafe-directory'
  | 'not-a-socket'
  | 'live-owner'
  | 'bind-failed'
  | 'closed'

/** The message says the action, the value, the reason and the remedy. */
export class SdsServerError extends Error {
  override readonly name = 'SdsServerError'
  readonly code: SdsServerErrorCode

  constructor(code: SdsServerErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

/** Another process accepts connections at the path: `live-owner`. */
export class LiveOwnerError extends SdsServerError {
  /** Whether it is of root or of this user. */
  readonly isTrusted: boolean

  constructor(message: string, { isTrusted }: { readonly isTrusted: boolean }) {
    super('live-owner', message)
    this.isTrusted = isTrusted
  }
}

/** How a client ends: its open calls reject, and so does every later one. */
import { CAError } from '@livery/core'

export class Closable {
  readonly #closing = new AbortController()
  readonly #ca: string

  /** `ca` is what the client asks, for its error: `the CA at ca.example:15012`. */
  constructor(ca: string) {
    this.#ca = ca
  }

  /** Aborted once the client is closed, with a `CAError` `unavailable` that is not retryable. */
  get signal(): AbortSignal {
    return this.#closing.signal
  }

  /** Aborted with `signal` or once the client is closed. Throws the reason if either is aborted already. */
  until(signal: AbortSignal): AbortSignal {
    const either = AbortSignal.any([signal, this.#closing.signal])
    either.throwIfAborted()
    return either
  }

  close(): void {
    this.#closing.abort(
      new CAError('unavailable', `Cannot ask ${this.#ca}: its client is closed.`, { retryable: false }),
    )
  }
}

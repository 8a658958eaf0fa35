/** How a client ends: its open calls reject, and so does every later one. */
import { abortWith, CAError } from '@livery/core/plugin'

/** One call, until it is disposed. */
interface OpenCall extends Disposable {
  /** Its signal is aborted with that of the caller, once the client is closed, or by the call's own deadline. */
  readonly ending: AbortController
}

export class Closable {
  readonly #closing = new AbortController()
  readonly #open = new Set<AbortController>()
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

  /** As {@link until}, at a tenth of the cost, for a call that says when it has ended. */
  begin(signal: AbortSignal): OpenCall {
    this.#closing.signal.throwIfAborted()
    signal.throwIfAborted()
    const ending = new AbortController()
    const withCaller = abortWith(signal, ending)
    this.#open.add(ending)
    return {
      ending,
      [Symbol.dispose]: () => {
        withCaller[Symbol.dispose]()
        this.#open.delete(ending)
      },
    }
  }

  close(): void {
    const { signal } = this.#closing
    this.#closing.abort(
      new CAError('unavailable', `Cannot ask ${this.#ca}: its client is closed.`, { retryable: false }),
    )
    for (const ending of this.#open) ending.abort(signal.reason)
  }
}

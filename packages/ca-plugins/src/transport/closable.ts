/** The end of a client: its open calls reject, and so does every later one. */
import { abortWith, CAError } from '@livery/core/plugin'

/** One call, until it is disposed. */
interface OpenCall extends Disposable {
  /** Aborts with the caller's signal, when the client closes, or at the call's own deadline. */
  readonly ending: AbortController
}

export class Closable {
  readonly #closing = new AbortController()
  readonly #open = new Set<AbortController>()
  readonly #ca: string

  /** `ca` names the CA in the client's error: `the CA at ca.example:15012`. */
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

  /** Works as {@link until} at a tenth of the cost, for a call that reports its end. */
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

/** Keeps calls away from a CA that fails again and again, and lets one through now and then to see whether it is back. */
import type { Clock } from '@livery/core'

export interface CircuitBreakerOptions {
  readonly clock: Clock
  /** Failures in a row that open it. */
  readonly failures: number
  /** How long it stays open at first, milliseconds; doubled each time that the trial fails as well. */
  readonly openMs: number
  readonly maxOpenMs: number
  /** Called when it opens and when it closes. */
  readonly onChange: (state: 'open' | 'closed') => void
}

type State =
  | { readonly kind: 'closed'; readonly failures: number }
  | { readonly kind: 'open'; readonly until: number; readonly openMs: number }
  /** One call is on trial; its end decides. */
  | { readonly kind: 'trial'; readonly openMs: number }

export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  #state: State = { kind: 'closed', failures: 0 }

  constructor(options: CircuitBreakerOptions) {
    this.#options = options
  }

  /** Whether a call may go now. One that may has to end with `succeeded`, `failed` or `abandoned`. */
  admits(): boolean {
    if (this.#state.kind === 'closed') return true
    if (this.#state.kind === 'trial' || this.#state.until > this.#options.clock.now()) return false
    this.#state = { kind: 'trial', openMs: this.#state.openMs }
    return true
  }

  succeeded(): void {
    const wasOpen = this.#state.kind !== 'closed'
    this.#state = { kind: 'closed', failures: 0 }
    if (wasOpen) this.#options.onChange('closed')
  }

  failed(): void {
    const { failures, openMs, maxOpenMs } = this.#options
    switch (this.#state.kind) {
      case 'open':
        // A call from before it opened tells nothing new.
        return
      case 'trial':
        this.#open(Math.min(this.#state.openMs * 2, maxOpenMs))
        return
      case 'closed':
        this.#state = { kind: 'closed', failures: this.#state.failures + 1 }
        if (this.#state.failures < failures) return
        this.#open(openMs)
        this.#options.onChange('open')
    }
  }

  /** The call ended without telling anything of the CA: nobody waited for it any more. */
  abandoned(): void {
    if (this.#state.kind === 'trial') this.#open(0)
  }

  #open(ms: number): void {
    const { clock, openMs } = this.#options
    this.#state = { kind: 'open', until: clock.now() + ms, openMs: Math.max(ms, openMs) }
  }
}

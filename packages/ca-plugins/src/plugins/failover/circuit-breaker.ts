/** Keeps calls away from a CA that fails again and again, and lets one through now and then to see whether it is back. */
import type { Clock } from '@livery/core/plugin'

/** A change of a breaker; `forMs`: how long calls are kept away; `reason`: what the last one ended with. */
export type BreakerChange =
  | { readonly kind: 'open'; readonly forMs: number; readonly reason: string }
  | { readonly kind: 'half-open' }
  | { readonly kind: 'closed' }

interface CircuitBreakerOptions {
  readonly clock: Clock
  /** Failures in a row that open it. */
  readonly failures: number
  /** How long it stays open at first, milliseconds; doubled each time that the trial fails as well. */
  readonly openMs: number
  /** The longest that it stays open, also when the CA asks for more. */
  readonly maxOpenMs: number
  readonly onChange: (change: BreakerChange) => void
}

type State =
  | { readonly kind: 'closed'; readonly failures: number }
  /** `asked`: by the CA itself, which has no room. */
  | { readonly kind: 'open'; readonly until: number; readonly openMs: number; readonly asked: boolean }
  /** One call is on trial; its end decides. */
  | { readonly kind: 'half-open'; readonly openMs: number }

export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  #state: State = { kind: 'closed', failures: 0 }

  constructor(options: CircuitBreakerOptions) {
    this.#options = options
  }

  /** How long the CA still wants to be left alone, milliseconds; 0 if it does not. */
  get restMs(): number {
    if (this.#state.kind !== 'open' || !this.#state.asked) return 0
    return Math.max(this.#state.until - this.#options.clock.now(), 0)
  }

  /** Whether a call may go now. One that may has to end with `succeeded`, `failed`, `refused` or `abandoned`. */
  admits(): boolean {
    if (this.#state.kind === 'closed') return true
    if (this.#state.kind === 'half-open' || this.#state.until > this.#options.clock.now()) return false
    this.#state = { kind: 'half-open', openMs: this.#state.openMs }
    this.#options.onChange({ kind: 'half-open' })
    return true
  }

  succeeded(): void {
    // A call from before the CA asked to be left alone: it still wants to be.
    if (this.restMs > 0) return
    const wasOpen = this.#state.kind !== 'closed'
    this.#state = { kind: 'closed', failures: 0 }
    if (wasOpen) this.#options.onChange({ kind: 'closed' })
  }

  failed(reason: string): void {
    const { failures, openMs, maxOpenMs } = this.#options
    switch (this.#state.kind) {
      case 'open':
        // A call that started before it opened says nothing new.
        return
      case 'half-open':
        this.#open(Math.min(this.#state.openMs * 2, maxOpenMs), reason)
        return
      case 'closed':
        this.#state = { kind: 'closed', failures: this.#state.failures + 1 }
        if (this.#state.failures >= failures) this.#open(openMs, reason)
    }
  }

  /** The CA works, and has no room for `ms`: nobody asks it until then, or until the longest that it stays open. */
  refused(ms: number, reason: string): void {
    const { clock, openMs, maxOpenMs, onChange } = this.#options
    // The time is the CA's to say, and may be of a clock that is wrong by years.
    const forMs = Math.min(ms, maxOpenMs)
    const until = clock.now() + forMs
    const { kind } = this.#state
    if (this.#state.kind === 'open' && this.#state.until >= until) return
    this.#state = { kind: 'open', until, openMs, asked: true }
    if (kind !== 'open') onChange({ kind: 'open', forMs, reason })
  }

  /** The call ended without news of the CA: nobody waited for it any longer, or it failed on this node. The next one is on trial. */
  abandoned(): void {
    if (this.#state.kind !== 'half-open') return
    const { openMs } = this.#state
    this.#state = { kind: 'open', until: this.#options.clock.now(), openMs, asked: false }
  }

  #open(forMs: number, reason: string): void {
    const { clock, onChange } = this.#options
    this.#state = { kind: 'open', until: clock.now() + forMs, openMs: forMs, asked: false }
    onChange({ kind: 'open', forMs, reason })
  }
}

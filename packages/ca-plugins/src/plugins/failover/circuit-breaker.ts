/** Keeps calls away from a CA that fails again and again, and lets one through now and then to see whether it is back. */
import type { Clock } from '@livery/core/plugin'
import type { BreakerChange, FailoverOptions } from './failover-options.ts'

type Limits = Pick<FailoverOptions, 'failures' | 'openMs' | 'maxOpenMs'>

type State =
  | { readonly kind: 'closed'; readonly failures: number }
  /** `asked`: whether the CA itself asked for the pause, since it has no room. */
  | { readonly kind: 'open'; readonly until: number; readonly openMs: number; readonly asked: boolean }
  /** One call is on trial; its end decides. */
  | { readonly kind: 'half-open'; readonly openMs: number }

export class CircuitBreaker {
  readonly #clock: Clock
  readonly #limits: Limits
  readonly #report: (change: BreakerChange) => void
  #state: State = { kind: 'closed', failures: 0 }

  constructor(clock: Clock, limits: Limits, report: (change: BreakerChange) => void) {
    this.#clock = clock
    this.#limits = limits
    this.#report = report
  }

  /** How much longer the CA asks for no calls, milliseconds; 0 if it does not. */
  get restMs(): number {
    if (this.#state.kind !== 'open' || !this.#state.asked) return 0
    return Math.max(this.#state.until - this.#clock.now(), 0)
  }

  /** Whether a call may go now. The caller must then report `succeeded`, `failed`, `refused` or `abandoned`. */
  admits(): boolean {
    if (this.#state.kind === 'closed') return true
    if (this.#state.kind === 'half-open' || this.#state.until > this.#clock.now()) return false
    this.#state = { kind: 'half-open', openMs: this.#state.openMs }
    this.#report({ kind: 'half-open' })
    return true
  }

  succeeded(): void {
    // A call from before the CA asked for a pause does not end the pause.
    if (this.restMs > 0) return
    const wasOpen = this.#state.kind !== 'closed'
    this.#state = { kind: 'closed', failures: 0 }
    if (wasOpen) this.#report({ kind: 'closed' })
  }

  failed(reason: string): void {
    const { failures, openMs, maxOpenMs } = this.#limits
    switch (this.#state.kind) {
      case 'open':
        // A call from before the breaker opened says nothing new.
        return
      case 'half-open':
        this.#open(Math.min(this.#state.openMs * 2, maxOpenMs), reason)
        return
      case 'closed':
        this.#state = { kind: 'closed', failures: this.#state.failures + 1 }
        if (this.#state.failures >= failures) this.#open(openMs, reason)
    }
  }

  /** The CA works, and has no room for `ms`: it gets no calls until then, or for the longest pause. */
  refused(ms: number, reason: string): void {
    const { openMs, maxOpenMs } = this.#limits
    // The time comes from the CA, whose clock may be wrong by years.
    const forMs = Math.min(ms, maxOpenMs)
    const until = this.#clock.now() + forMs
    const { kind } = this.#state
    if (this.#state.kind === 'open' && this.#state.until >= until) return
    this.#state = { kind: 'open', until, openMs, asked: true }
    if (kind !== 'open') this.#report({ kind: 'open', forMs, reason })
  }

  /** The call ended without news of the CA: its caller left, or it failed on this node. The next one is on trial. */
  abandoned(): void {
    if (this.#state.kind !== 'half-open') return
    const { openMs } = this.#state
    this.#state = { kind: 'open', until: this.#clock.now(), openMs, asked: false }
  }

  #open(forMs: number, reason: string): void {
    this.#state = { kind: 'open', until: this.#clock.now() + forMs, openMs: forMs, asked: false }
    this.#report({ kind: 'open', forMs, reason })
  }
}

/** How many requests a CA gets at once: additive increase while it keeps up, multiplicative decrease when it does not. */

/** An answer this many times slower than the quickest recent one says that requests queue up at the CA. */
const SLOW = 4
/** Below this the CA is quick enough that a factor means nothing: timers, scheduling, one slow disk write. */
const SLOW_FLOOR_MS = 100
/** How much the remembered quickest answer drifts up with each answer, so that a CA that became slower is not throttled for ever. */
const DRIFT = 0.02

/** A thousand nodes may start in one second. */
const START = 4

/**
 * The bound on requests in flight, as TCP would have it (RFC 5681): one more for each answer until it was too much once,
 * then one more a round, half when it was too much.
 */
export class AdaptiveLimit {
  readonly #max: number
  #limit: number
  #quickestMs = Number.POSITIVE_INFINITY
  #lastDecreaseAt = Number.NEGATIVE_INFINITY

  #isStarting = true

  /** Starts at 4, and never goes above `max` or below one. */
  constructor(max: number) {
    this.#max = max
    this.#limit = Math.min(START, max)
  }

  get current(): number {
    return Math.max(Math.floor(this.#limit), 1)
  }

  /** A certificate: the CA keeps up, unless it took much longer than before. */
  answered(startedAt: number, now: number): void {
    const latency = now - startedAt
    const isSlow = this.#isSlow(latency)
    const drifted = this.#quickestMs === Number.POSITIVE_INFINITY ? latency : this.#quickestMs * (1 + DRIFT)
    this.#quickestMs = Math.min(drifted, latency)
    if (isSlow) this.overloaded(startedAt, now)
    else this.#increase()
  }

  /** A refusal of this one request: the CA keeps up. How quick it is with a certificate, that does not tell. */
  refused(startedAt: number, now: number): void {
    if (!this.#isSlow(now - startedAt)) this.#increase()
  }

  /** No answer, or one that says "too much". Requests sent before the last decrease tell nothing new. */
  overloaded(startedAt: number, now: number): void {
    if (startedAt <= this.#lastDecreaseAt) return
    this.#lastDecreaseAt = now
    this.#isStarting = false
    this.#limit = Math.max(this.#limit / 2, 1)
  }

  #isSlow(latency: number): boolean {
    return latency > Math.max(SLOW * this.#quickestMs, SLOW_FLOOR_MS)
  }

  #increase(): void {
    this.#limit = Math.min(this.#limit + (this.#isStarting ? 1 : 1 / this.#limit), this.#max)
  }
}

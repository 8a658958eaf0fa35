/** How many requests a CA gets at once: additive increase while it keeps up, multiplicative decrease when it does not. */

/** An answer this many times slower than the quickest recent one says that requests queue up at the CA. */
const SLOW = 4
/** Below this latency a factor is noise: timers, scheduling, one slow disk write. */
const SLOW_FLOOR_MS = 100
/** How much the remembered quickest answer drifts up with each answer, so that a CA that became slower is not throttled for ever. */
const DRIFT = 0.02

/** The window at the start: a thousand nodes may start in one second. */
const START = 4

/**
 * The bound on requests in flight, as in TCP (RFC 5681): one more for each answer until the first overload, then one
 * more per round, and half after an overload.
 */
export class CongestionWindow {
  readonly max: number
  #size: number
  #quickestMs = Number.POSITIVE_INFINITY
  #lastDecreaseAt = Number.NEGATIVE_INFINITY

  #isStarting = true

  /** Starts at 4, and never goes above `max` or below one. */
  constructor(max: number) {
    this.max = max
    this.#size = Math.min(START, max)
  }

  get current(): number {
    return Math.max(Math.floor(this.#size), 1)
  }

  /**
   * A certificate: the CA keeps up, unless the answer took much longer than before. `waitedMs` leaves out the time in
   * which this process was busy and could not have seen the answer.
   */
  granted(startedAt: number, now: number, waitedMs = now - startedAt): void {
    const latency = now - startedAt
    // The clock was set back meanwhile.
    if (latency < 0) return
    const isSlow = this.#isSlow(waitedMs)
    const drifted = this.#quickestMs === Number.POSITIVE_INFINITY ? latency : this.#quickestMs * (1 + DRIFT)
    this.#quickestMs = Math.min(drifted, latency)
    if (isSlow) this.overloaded(startedAt, now)
    else this.#increase()
  }

  /** The CA rejected this request, so it is responsive; the latency of a rejection says nothing about issuance. */
  refused(waitedMs: number): void {
    if (!this.#isSlow(waitedMs)) this.#increase()
  }

  /** No answer, or one that says "too much". Requests sent before the last decrease say nothing new. */
  overloaded(startedAt: number, now: number): void {
    if (startedAt <= this.#lastDecreaseAt) return
    this.#lastDecreaseAt = now
    this.#isStarting = false
    this.#size = Math.max(this.#size / 2, 1)
  }

  /**
   * The CA was down and is back: starts over, since many nodes may come back in one second, and it may be slower than
   * before. Earlier requests are no evidence: their answers waited for a connection.
   */
  restart(now: number): void {
    this.#isStarting = true
    this.#size = Math.min(START, this.max)
    this.#quickestMs = Number.POSITIVE_INFINITY
    this.#lastDecreaseAt = now
  }

  clockSetBack(ms: number): void {
    this.#lastDecreaseAt -= ms
  }

  #isSlow(waitedMs: number): boolean {
    return waitedMs > Math.max(SLOW * this.#quickestMs, SLOW_FLOOR_MS)
  }

  #increase(): void {
    this.#size = Math.min(this.#size + (this.#isStarting ? 1 : 1 / this.#size), this.max)
  }
}

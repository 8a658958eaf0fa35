/** A rate with a burst: a peer may act often at once, but only seldom for long. */

/** Events per second that last, and how many may come at once. */
export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

/** Fills with each event and leaks at the rate. The time is handed in: a bucket costs two numbers. */
export class LeakyBucket {
  #level = 0
  #leakedAt = 0

  /** Adds `amount` unless that would be over the burst; returns whether it did. */
  take(now: number, { perSecond, burst }: Rate, amount = 1): boolean {
    this.#leak(now, perSecond)
    if (this.#level + amount > burst) return false
    this.#level += amount
    return true
  }

  /** Adds `amount` in any case; returns whether the level is still within the burst. */
  add(now: number, { perSecond, burst }: Rate, amount = 1): boolean {
    this.#leak(now, perSecond)
    // A debt leaks within the time of two bursts.
    this.#level = Math.min(this.#level + amount, 2 * burst)
    return this.#level <= burst
  }

  /** Milliseconds until `amount` more fit. */
  waitMs(now: number, { perSecond, burst }: Rate, amount = 1): number {
    this.#leak(now, perSecond)
    return Math.max(0, Math.ceil(((this.#level + amount - burst) * 1_000) / perSecond))
  }

  #leak(now: number, perSecond: number): void {
    const elapsed = now - this.#leakedAt
    this.#leakedAt = now
    // A clock that was set back leaks nothing.
    if (elapsed > 0) this.#level = Math.max(0, this.#level - (elapsed * perSecond) / 1_000)
  }
}

/** How often connecting to a server failed in a row, and how long to wait before the next attempt. */
import { backoff, type Clock } from '@livery/core/plugin'

/** Calls should not wait long for a server that is back while a node's certificates run out. */
const SHORT = { minMs: 50, maxMs: 200 }
/** A restart takes a second or two: dials are twice as frequent until then. */
const RESTART_MS = 3_000
/** The wait is at most this share of a long outage: a thousand nodes may be dialling the CA. */
const SHARE_OF_OUTAGE = 1 / 500
const LONGEST_MS = 1_000

export class Outage {
  readonly #clock: Clock
  readonly #random: () => number
  #failures = 0
  /** The time of the first failure. */
  #since = 0

  /** `random`: in [0, 1). */
  constructor(clock: Clock, random: () => number = Math.random) {
    this.#clock = clock
    this.#random = random
  }

  /** An attempt to connect failed. */
  failed(): void {
    if (this.#failures++ === 0) this.#since = this.#clock.now()
  }

  /** The server was reached. */
  ended(): void {
    this.#failures = 0
  }

  /** The wait before the next attempt, milliseconds; 0 without a failure since the server was reached. */
  delayMs(): number {
    if (this.#failures === 0) return 0
    return redialDelay(this.#failures, this.#clock.now() - this.#since, this.#random())
  }
}

/**
 * Milliseconds after the last of `failures` failures in a row, which began `outageMs` ago: about 50, then 100 ms,
 * 200 ms after three seconds, and up to a second in an outage of minutes. `random`, in [0, 1), moves it by up to 20 %: nodes that lost a CA together
 * must not dial it together.
 */
export function redialDelay(failures: number, outageMs: number, random: number): number {
  const short = Math.min(backoff(failures, SHORT), outageMs < RESTART_MS ? SHORT.maxMs / 2 : SHORT.maxMs)
  const delay = Math.max(short, Math.min(outageMs * SHARE_OF_OUTAGE, LONGEST_MS))
  return delay * (0.8 + 0.4 * random)
}

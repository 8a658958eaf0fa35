/** How often connecting to a server failed in a row, and how long to wait before the next attempt. */
import type { Clock } from '@livery/core/plugin'
import { redialDelay } from './redial-delay.ts'

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

/** Ends the stream of a peer that rejects endlessly: no other limit bounds the cost of its NACKs. */
import type { Clock } from '@livery/core/plugin'
import { StreamRefusal } from '../protocol/stream-refusal.ts'

const WINDOW_MS = 60_000

/** Counts the NACKs of one stream. */
export class NackRate {
  readonly #clock: Clock
  readonly #perMinute: number
  #windowStart = 0
  #count = 0

  constructor(clock: Clock, perMinute: number) {
    this.#clock = clock
    this.#perMinute = perMinute
  }

  /** Throws a `StreamRefusal` (RESOURCE_EXHAUSTED) when there are too many. */
  count(): void {
    const now = this.#clock.now()
    if (Math.abs(now - this.#windowStart) >= WINDOW_MS) {
      this.#windowStart = now
      this.#count = 0
    }
    if (++this.#count <= this.#perMinute) return
    throw new StreamRefusal(
      'resource-exhausted',
      `more than ${this.#perMinute} rejected responses in a minute: look at the reasons that this peer gives`,
    )
  }
}

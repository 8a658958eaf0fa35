/** The allowed cost of a minute: more is a hot loop. */

import type { SpiffeId } from '../../src/spiffe/spiffe-id.ts'

const MINUTE_MS = 60_000
/** Certificates of a second are renewed once a second; the rest is for a failure between two of them. */
const FETCHES = 90
/** Somebody who asks has a request made at once, and what follows it. */
const FETCHES_PER_EVENT = 4
const WAKES = 120
const WAKES_PER_FETCH = 4
const WAKES_PER_EVENT = 20
/** The most steps in one moment of the clock. */
const STEPS = 2_000

export class Limits {
  readonly #fetches = new Map<SpiffeId, number>()
  #total = 0
  #wakes = 0
  #events = 0
  #eventsBefore = 0
  #minute = 0
  #steps = 0
  /** The most of each that a run came to, as a share of what it may. */
  readonly most = { fetches: 0, wakes: 0 }

  event(): void {
    this.#events++
  }

  fetched(id: SpiffeId): void {
    const fetches = (this.#fetches.get(id) ?? 0) + 1
    this.#fetches.set(id, fetches)
    this.#total++
    const limit = FETCHES + FETCHES_PER_EVENT * (this.#events + this.#eventsBefore)
    this.most.fetches = Math.max(this.most.fetches, fetches / limit)
    if (fetches > limit) throw new Error(`${id} is asked for ${fetches} times in a minute`)
  }

  woke(): void {
    this.#wakes++
    const limit = WAKES + WAKES_PER_FETCH * this.#total + WAKES_PER_EVENT * (this.#events + this.#eventsBefore)
    this.most.wakes = Math.max(this.most.wakes, this.#wakes / limit)
    if (this.#wakes > limit) throw new Error(`${this.#wakes} wakes in a minute, for ${this.#total} requests`)
  }

  step(): void {
    if (++this.#steps > STEPS) throw new Error(`${STEPS} steps, and no time has passed`)
  }

  /** `ms`: since the start, as the process sees it. */
  passed(ms: number): void {
    this.#steps = 0
    const minute = Math.floor(ms / MINUTE_MS)
    if (minute === this.#minute) return
    this.#eventsBefore = minute === this.#minute + 1 ? this.#events : 0
    this.#minute = minute
    this.#events = 0
    this.#total = 0
    this.#wakes = 0
    this.#fetches.clear()
  }
}

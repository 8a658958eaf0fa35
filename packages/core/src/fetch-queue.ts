/** Which fetches run now: a bounded number at once, the most urgent first, those with the least time left before others. */

import { Heap } from './heap.ts'

/** Somebody waits; nobody has it yet; it is still valid. */
export type Urgency = 'on-demand' | 'first' | 'renewal'

const RANK: Readonly<Record<Urgency, number>> = { 'on-demand': 0, first: 1, renewal: 2 }

interface Place {
  readonly urgency: Urgency
  /** Milliseconds since the epoch: who loses what they have first goes first. */
  readonly deadline: number
  readonly order: number
}

/** So many entries that were overtaken or deleted may lie in the heap, beside as many as are waiting. */
const MAX_STALE = 1_000

/** Runs keys by urgency, then deadline, then the order in which they came. Nothing is dropped, however long the queue. */
export class FetchQueue<Key> {
  readonly #limit: () => number
  readonly #run: (key: Key) => Promise<void>
  readonly #places = new Map<Key, Place>()
  /** Entries whose place is no longer that of `#places` are skipped. */
  readonly #heap = new Heap<{ readonly key: Key; readonly place: Place }>((a, b) => isBefore(a.place, b.place))
  #running = 0
  #pushed = 0
  #isPaused = false

  /** `limit` is asked before each start. `run` must not reject. */
  constructor(limit: () => number, run: (key: Key) => Promise<void>) {
    this.#limit = limit
    this.#run = run
  }

  get waiting(): number {
    return this.#places.size
  }

  get running(): number {
    return this.#running
  }

  /** Asking again raises the urgency, never lowers it, and never runs a key twice. */
  push(key: Key, urgency: Urgency, deadline = Number.POSITIVE_INFINITY): void {
    const present = this.#places.get(key)
    if (present && RANK[present.urgency] <= RANK[urgency]) return
    const place = {
      urgency,
      deadline: Math.min(deadline, present?.deadline ?? deadline),
      order: present?.order ?? this.#pushed++,
    }
    this.#places.set(key, place)
    this.#heap.push({ key, place })
    this.#compact()
    this.#fill()
  }

  delete(key: Key): void {
    this.#places.delete(key)
    this.#compact()
  }

  /** Starts nothing until `resume`; what runs goes on. */
  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    this.#fill()
  }

  #fill(): void {
    while (!this.#isPaused && this.#running < this.#limit()) {
      const next = this.#shift()
      if (next === undefined) return
      this.#running++
      void this.#run(next.key).finally(() => {
        this.#running--
        this.#fill()
      })
    }
  }

  /** While nothing is started, what was deleted would otherwise pile up. */
  #compact(): void {
    if (this.#heap.size <= 2 * this.#places.size + MAX_STALE) return
    this.#heap.retain(({ key, place }) => this.#places.get(key) === place)
  }

  #shift(): { readonly key: Key } | undefined {
    for (let top = this.#heap.pop(); top; top = this.#heap.pop()) {
      if (this.#places.get(top.key) !== top.place) continue
      this.#places.delete(top.key)
      return top
    }
    return undefined
  }
}

function isBefore(a: Place, b: Place): boolean {
  if (a.urgency !== b.urgency) return RANK[a.urgency] < RANK[b.urgency]
  return a.deadline === b.deadline ? a.order < b.order : a.deadline < b.deadline
}

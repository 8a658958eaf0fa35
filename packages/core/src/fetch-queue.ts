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
    const place = { urgency, deadline, order: present?.order ?? this.#pushed++ }
    this.#places.set(key, place)
    this.#heap.push({ key, place })
    this.#fill()
  }

  delete(key: Key): void {
    this.#places.delete(key)
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

/** The order of waiting keys: the most urgent first, without starving renewals. */

import { Heap } from '../time/heap.ts'
import type { Urgency } from './identity.ts'

const RANK: Readonly<Record<Urgency, number>> = { 'on-demand': 0, first: 1, renewal: 2, retry: 3 }
const BY_URGENCY: readonly Urgency[] = ['on-demand', 'first', 'renewal', 'retry']
const RENEWAL_FIRST: readonly Urgency[] = ['renewal', 'on-demand', 'first', 'retry']

interface Entry<Key> {
  readonly key: Key
  readonly place: Place
}

interface Place {
  readonly urgency: Urgency
  /** Milliseconds since the epoch: the key whose certificate ends first goes first. */
  readonly deadline: number
  readonly order: number
}

export interface Taken<Key> {
  readonly key: Key
  readonly urgency: Urgency
}

/** The heaps may hold this many stale entries, beside one for each waiting key. */
const MAX_STALE = 1_000

/**
 * Gives keys by urgency, then deadline, then the order in which they came. While renewals wait, others get no more than
 * half of the room, or every other turn where there is room for one: however many of them hang, a renewal has its turn.
 * Nothing is dropped, however long the queue.
 */
export class FetchQueue<Key> {
  readonly #places = new Map<Key, Place>()
  /** An entry that differs from the one in `#places` is stale, and skipped. */
  readonly #heaps: Readonly<Record<Urgency, Heap<Entry<Key>>>> = {
    'on-demand': emptyHeap(),
    first: emptyHeap(),
    renewal: emptyHeap(),
    retry: emptyHeap(),
  }
  #running = 0
  /** The number of running keys that are not renewals. */
  #others = 0
  #wasRenewal = true
  #pushed = 0

  get waiting(): number {
    return this.#places.size
  }

  get running(): number {
    return this.#running
  }

  /** How many wait, by their urgency. */
  depths(): Readonly<Record<Urgency, number>> {
    const depths = { 'on-demand': 0, first: 0, renewal: 0, retry: 0 }
    for (const { urgency } of this.#places.values()) depths[urgency]++
    return depths
  }

  /** Asking again raises the urgency, never lowers it, and never gives a key twice. */
  push(key: Key, urgency: Urgency, deadline = Number.POSITIVE_INFINITY): void {
    const present = this.#places.get(key)
    if (present && RANK[present.urgency] <= RANK[urgency]) return
    const place = {
      urgency,
      deadline: Math.min(deadline, present?.deadline ?? deadline),
      order: present?.order ?? this.#pushed++,
    }
    this.#places.set(key, place)
    this.#heaps[urgency].push({ key, place })
    this.#compact()
  }

  /** As {@link push}, but only for a waiting key: a running one is not queued again. */
  raise(key: Key, urgency: Urgency): void {
    if (this.#places.has(key)) this.push(key, urgency)
  }

  delete(key: Key): void {
    this.#places.delete(key)
    this.#compact()
  }

  /** The next one, which runs until {@link end}; `undefined` if none waits, or `limit` of them run. */
  take(limit: number): Taken<Key> | undefined {
    if (this.#running >= limit || this.#places.size === 0) return undefined
    return this.#take(this.#isRenewalsTurn(limit) ? RENEWAL_FIRST : BY_URGENCY)
  }

  /** The most urgent one, however many run. */
  takeMostUrgent(): Taken<Key> | undefined {
    return this.#take(BY_URGENCY)
  }

  /** One that was taken with this urgency has ended. */
  end(urgency: Urgency): void {
    this.#running--
    if (urgency !== 'renewal') this.#others--
  }

  #take(urgencies: readonly Urgency[]): Taken<Key> | undefined {
    const next = this.#shift(urgencies)
    if (!next) return undefined
    const { urgency } = next.place
    this.#wasRenewal = urgency === 'renewal'
    this.#running++
    if (!this.#wasRenewal) this.#others++
    return { key: next.key, urgency }
  }

  #isRenewalsTurn(limit: number): boolean {
    return limit === 1 ? !this.#wasRenewal : 2 * this.#others >= limit
  }

  /** Deleted entries would pile up while nothing is started. */
  #compact(): void {
    const { 'on-demand': onDemand, first, renewal, retry } = this.#heaps
    const size = onDemand.size + first.size + renewal.size + retry.size
    if (size <= 2 * this.#places.size + MAX_STALE) return
    for (const heap of Object.values(this.#heaps)) heap.retain(({ key, place }) => this.#places.get(key) === place)
  }

  #shift(urgencies: readonly Urgency[]): Entry<Key> | undefined {
    for (const urgency of urgencies) {
      const heap = this.#heaps[urgency]
      for (let top = heap.pop(); top; top = heap.pop()) {
        if (this.#places.get(top.key) !== top.place) continue
        this.#places.delete(top.key)
        return top
      }
    }
    return undefined
  }
}

function emptyHeap<Key>(): Heap<Entry<Key>> {
  return new Heap(({ place: a }, { place: b }) =>
    a.deadline === b.deadline ? a.order < b.order : a.deadline < b.deadline,
  )
}

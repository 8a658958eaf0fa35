/** The order of waiting keys: the most urgent first, without starving renewals. */

import { Heap } from '../time/heap.ts'
import type { Urgency } from './identity.ts'

const BY_URGENCY: readonly Urgency[] = ['on-demand', 'first', 'renewal', 'retry']
const RENEWAL_FIRST: readonly Urgency[] = ['renewal', 'on-demand', 'first', 'retry']

interface Entry<Key> {
  readonly key: Key
  readonly urgency: Urgency
  /** Milliseconds since the epoch: the key whose certificate ends first goes first. */
  readonly deadline: number
  readonly order: number
  place: number
}

/** After all certificates' ends. */
const NO_DEADLINE = Number.MAX_VALUE

/**
 * Gives keys by urgency, then deadline, then the order in which they came. While renewals wait, others get no more than
 * half of the room, or every other turn where there is room for one: however many of them hang, a renewal has its turn.
 * Nothing is dropped, however long the queue.
 */
export class FetchQueue<Key> {
  readonly #entries = new Map<Key, Entry<Key>>()
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
    return this.#entries.size
  }

  get running(): number {
    return this.#running
  }

  /** How many wait, by their urgency. */
  depths(): Readonly<Record<Urgency, number>> {
    const { 'on-demand': onDemand, first, renewal, retry } = this.#heaps
    return { 'on-demand': onDemand.size, first: first.size, renewal: renewal.size, retry: retry.size }
  }

  /** Asking again raises the urgency, never lowers it, and never gives a key twice. */
  push(key: Key, urgency: Urgency, deadline = NO_DEADLINE): void {
    const present = this.#entries.get(key)
    if (present && BY_URGENCY.indexOf(present.urgency) <= BY_URGENCY.indexOf(urgency)) return
    if (present) this.#heaps[present.urgency].delete(present)
    const entry = {
      key,
      urgency,
      deadline: Math.min(deadline, present?.deadline ?? deadline),
      order: present?.order ?? this.#pushed++,
      place: -1,
    }
    this.#entries.set(key, entry)
    this.#heaps[urgency].put(entry, entry.deadline)
  }

  /** As {@link push}, but only for a waiting key: a running one is not queued again. */
  raise(key: Key, urgency: Urgency): void {
    if (this.#entries.has(key)) this.push(key, urgency)
  }

  delete(key: Key): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    this.#entries.delete(key)
    this.#heaps[entry.urgency].delete(entry)
  }

  /** The next one, which runs until {@link end}; `undefined` if none waits, or `limit` of them run. */
  take(limit: number): Pick<Entry<Key>, 'key' | 'urgency'> | undefined {
    if (this.#running >= limit) return undefined
    for (const urgency of this.#isRenewalsTurn(limit) ? RENEWAL_FIRST : BY_URGENCY) {
      const next = this.#heaps[urgency].take(NO_DEADLINE)
      if (!next) continue
      this.#entries.delete(next.key)
      this.#wasRenewal = urgency === 'renewal'
      this.#running++
      if (!this.#wasRenewal) this.#others++
      return next
    }
    return undefined
  }

  /** One that was taken with this urgency has ended. */
  end(urgency: Urgency): void {
    this.#running--
    if (urgency !== 'renewal') this.#others--
  }

  #isRenewalsTurn(limit: number): boolean {
    return limit === 1 ? !this.#wasRenewal : 2 * this.#others >= limit
  }
}

function emptyHeap<Key>(): Heap<Entry<Key>> {
  return new Heap((a, b) => a.order < b.order)
}

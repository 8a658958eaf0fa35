/** Identities that nobody watches: which of them goes first when room is needed, and which are idle. */

import type { Identity } from './identity.ts'

/** The treatment of a pinned identity that nobody uses: kept fresh, or dropped until somebody subscribes. */
export type IdleAction = 'renew' | 'drop'

export class Unused {
  readonly #idle: { readonly afterMs: number; readonly action: IdleAction }
  /** Kept on demand: since when, longest first. */
  readonly #evictable = new Map<Identity, number>()
  /** Removed: they end with their grace period, or are evicted when no other can be. */
  readonly #leaving = new Set<Identity>()
  /** Pinned, to be dropped when idle. */
  readonly #droppable = new Map<Identity, number>()

  /** A lower bound of when the oldest became unused: V8 walks past all deleted entries to reach the first of a Map. */
  #oldest = Number.POSITIVE_INFINITY

  constructor(idle: { readonly afterMs: number; readonly action: IdleAction }) {
    this.#idle = idle
  }

  /** It became unused, or is kept for another reason. */
  add(identity: Identity, now: number): void {
    this.delete(identity)
    if (identity.keep.kind === 'removed') this.#leaving.add(identity)
    else if (identity.keep.kind === 'on-demand') this.#evictable.set(identity, now)
    else if (this.#idle.action === 'drop') this.#droppable.set(identity, now)
    else return
    this.#oldest = Math.min(this.#oldest, now)
  }

  delete(identity: Identity): void {
    this.#evictable.delete(identity)
    this.#leaving.delete(identity)
    this.#droppable.delete(identity)
  }

  /** The one that goes first when room is needed, if any can. */
  firstToGo(): Identity | undefined {
    const [first] = this.#evictable.size > 0 ? this.#evictable.keys() : this.#leaving
    return first
  }

  /** When the next one is idle, milliseconds since the epoch, or sooner; infinite if none will be. */
  get nextIdleAt(): number {
    return this.#oldest + this.#idle.afterMs
  }

  /** The clock was set back: times that lie ahead become now. */
  clockSetBack(now: number): void {
    for (const unused of [this.#evictable, this.#droppable])
      for (const [identity, since] of unused) unused.set(identity, Math.min(since, now))
    this.#oldest = Math.min(this.#oldest, now)
  }

  /** Takes out one that is idle, if there is one. */
  takeIdle(now: number): Identity | undefined {
    if (this.nextIdleAt > now) return undefined
    for (const unused of [this.#evictable, this.#droppable]) {
      const [oldest] = unused
      if (!oldest || oldest[1] + this.#idle.afterMs > now) continue
      unused.delete(oldest[0])
      return oldest[0]
    }
    this.#oldest = Math.min(oldestOf(this.#evictable), oldestOf(this.#droppable))
    return undefined
  }
}

function oldestOf(unused: ReadonlyMap<unknown, number>): number {
  if (unused.size === 0) return Number.POSITIVE_INFINITY
  const [since = Number.POSITIVE_INFINITY] = unused.values()
  return since
}

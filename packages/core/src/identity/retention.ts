/** Which identities are held: those that are pinned always, those on demand while they are used and there is room. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import type { ManagedIdentity } from './managed-identity.ts'

/** Why an identity is no longer held, or, if it is pinned and idle, no longer kept fresh. */
export type End = 'forgotten' | 'idle' | 'evicted'

/** What becomes of a pinned identity that nobody uses. */
export type IdleAction = 'renew' | 'drop'

/** So many who found no room are remembered. */
const MAX_TURNED_AWAY = 10_000

export interface RetentionOptions {
  readonly clock: Clock
  readonly maxIdentities: number
  readonly removalGraceMs: number
  readonly idle: { readonly afterMs: number; readonly action: IdleAction }
  /** How many identities are held. */
  readonly held: () => number
  /** Whether anybody is subscribed to this very identity: a pattern that matches it is no reason to keep it. */
  readonly isUsed: (identity: SpiffeId) => boolean
  /** Whoever is evicted has to be let go of inside this call. */
  readonly onEnd: (managed: ManagedIdentity, end: End) => void
}

export class Retention implements Disposable {
  readonly #options: RetentionOptions
  /** Not used, held on demand: since when, longest first. */
  readonly #evictable = new Map<ManagedIdentity, number>()
  /** Not used, removed: they end by timers of their own, or are evicted when no other can be. */
  readonly #leaving = new Set<ManagedIdentity>()
  /** Not used and pinned, to be dropped when idle. */
  readonly #droppable = new Map<ManagedIdentity, number>()
  /** There was no room for them. */
  readonly #turnedAway = new Set<SpiffeId>()
  #sweep: Disposable | undefined

  constructor(options: RetentionOptions) {
    this.#options = options
  }

  /** Evicts what was unused for longest until there is room for one more; `false` if there is none. */
  makeRoom(): boolean {
    return this.#evictTo(this.#options.maxIdentities - 1)
  }

  /** To be called for one that is new or has another hold, when it is subscribed to, and when the last one has left. */
  file(managed: ManagedIdentity): void {
    const { clock, idle, isUsed } = this.#options
    this.#unfile(managed)
    this.#turnedAway.delete(managed.identity)
    if (isUsed(managed.identity)) return
    if (managed.hold.kind === 'removed') this.#leaving.add(managed)
    else if (managed.hold.kind === 'on-demand') this.#evictable.set(managed, clock.now())
    else if (idle.action === 'drop') this.#droppable.set(managed, clock.now())
    this.#arm()
  }

  /** It is pinned (again). */
  keep(managed: ManagedIdentity): void {
    if (managed.hold.kind === 'pinned') return
    managed.pin()
    this.file(managed)
  }

  /** It is no longer pinned, and its time ends after the grace period. Gives that time. */
  remove(managed: ManagedIdentity): number {
    const { clock, removalGraceMs, onEnd } = this.#options
    const until = clock.now() + removalGraceMs
    managed.unpin(until, () => onEnd(managed, 'forgotten'))
    this.file(managed)
    return until
  }

  release(managed: ManagedIdentity): void {
    this.#unfile(managed)
  }

  /** There was no room for it. As long as somebody is subscribed to it, it is let in when there is. */
  turnAway(identity: SpiffeId): void {
    this.#turnedAway.add(identity)
    if (this.#turnedAway.size <= MAX_TURNED_AWAY) return
    const [oldest] = this.#turnedAway
    if (oldest) this.#turnedAway.delete(oldest)
  }

  /**
   * To be called after somebody came to be unused or was let go of: evicts what is too much, since pinned ones are never
   * turned away, and calls `admit` for those who were and still wait, while there is room.
   */
  settle(admit: (identity: SpiffeId) => void): void {
    this.#evictTo(this.#options.maxIdentities)
    for (const identity of this.#turnedAway) {
      if (this.#options.isUsed(identity) && !this.makeRoom()) return
      this.#turnedAway.delete(identity)
      if (this.#options.isUsed(identity)) admit(identity)
    }
  }

  /** Ends nobody's time any more. */
  [Symbol.dispose](): void {
    this.#sweep?.[Symbol.dispose]()
    this.#turnedAway.clear()
    this.#evictable.clear()
    this.#leaving.clear()
    this.#droppable.clear()
  }

  #unfile(managed: ManagedIdentity): void {
    this.#evictable.delete(managed)
    this.#leaving.delete(managed)
    this.#droppable.delete(managed)
  }

  #evictTo(most: number): boolean {
    while (this.#options.held() > most) {
      const [longestUnused] = this.#evictable.size > 0 ? this.#evictable.keys() : this.#leaving
      if (!longestUnused) return false
      this.#end(longestUnused, 'evicted')
    }
    return true
  }

  #end(managed: ManagedIdentity, end: End): void {
    this.#unfile(managed)
    this.#options.onEnd(managed, end)
  }

  /** One timer for all, at the time of the one that is idle first; who was used meanwhile only makes it fire in vain. */
  #arm(): void {
    if (this.#sweep) return
    const since = Math.min(oldestOf(this.#evictable), oldestOf(this.#droppable))
    if (since === Number.POSITIVE_INFINITY) return
    this.#sweep = this.#options.clock.at(since + this.#options.idle.afterMs, () => {
      this.#sweep = undefined
      this.#endIdle(this.#evictable)
      this.#endIdle(this.#droppable)
      this.#arm()
    })
  }

  #endIdle(unused: ReadonlyMap<ManagedIdentity, number>): void {
    const { clock, idle } = this.#options
    for (const [managed, since] of unused) {
      if (since + idle.afterMs > clock.now()) return
      this.#end(managed, 'idle')
    }
  }
}

function oldestOf(unused: ReadonlyMap<unknown, number>): number {
  const [since = Number.POSITIVE_INFINITY] = unused.values()
  return since
}

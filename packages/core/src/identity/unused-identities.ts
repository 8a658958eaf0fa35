/** Identities that nobody watches: which of them goes first when room is needed, and which are idle. */

import type { Clock } from '../time/clock.ts'
import type { ManagedIdentity } from './managed-identity.ts'

/** The treatment of a pinned identity that nobody uses: kept fresh, or dropped until somebody subscribes. */
export type IdleAction = 'renew' | 'drop'

export interface UnusedIdentitiesOptions {
  readonly clock: Clock
  readonly idle: { readonly afterMs: number; readonly action: IdleAction }
  /** Called with one that is idle; it is no longer among the unused then. */
  readonly onIdle: (managed: ManagedIdentity) => void
}

export class UnusedIdentities implements Disposable {
  readonly #options: UnusedIdentitiesOptions
  /** Held on demand: since when, longest first. */
  readonly #evictable = new Map<ManagedIdentity, number>()
  /** Removed: they end by timers of their own, or are evicted when no other can be. */
  readonly #leaving = new Set<ManagedIdentity>()
  /** Pinned, to be dropped when idle. */
  readonly #droppable = new Map<ManagedIdentity, number>()
  #sweep: Disposable | undefined

  constructor(options: UnusedIdentitiesOptions) {
    this.#options = options
  }

  /** It is unused from now on, or is held for another reason. */
  add(managed: ManagedIdentity): void {
    const { clock, idle } = this.#options
    this.delete(managed)
    if (managed.hold.kind === 'removed') this.#leaving.add(managed)
    else if (managed.hold.kind === 'on-demand') this.#evictable.set(managed, clock.now())
    else if (idle.action === 'drop') this.#droppable.set(managed, clock.now())
    this.#arm()
  }

  delete(managed: ManagedIdentity): void {
    this.#evictable.delete(managed)
    this.#leaving.delete(managed)
    this.#droppable.delete(managed)
  }

  /** The one that goes first when room is needed, if any can. */
  firstToGo(): ManagedIdentity | undefined {
    const [first] = this.#evictable.size > 0 ? this.#evictable.keys() : this.#leaving
    return first
  }

  /** From now on nothing is idle or evicted. */
  [Symbol.dispose](): void {
    this.#sweep?.[Symbol.dispose]()
    this.#evictable.clear()
    this.#leaving.clear()
    this.#droppable.clear()
  }

  /** One timer for all, at the time of the one that is idle first; one that was used since only makes it fire in vain. */
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
    const { clock, idle, onIdle } = this.#options
    for (const [managed, since] of unused) {
      if (since + idle.afterMs > clock.now()) return
      this.delete(managed)
      onIdle(managed)
    }
  }
}

function oldestOf(unused: ReadonlyMap<unknown, number>): number {
  const [since = Number.POSITIVE_INFINITY] = unused.values()
  return since
}

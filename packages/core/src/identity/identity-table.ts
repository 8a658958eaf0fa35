/** Every identity that is held, who watches it, and why it is held: those that are pinned always, others while there is room. */

import type { SecretEvent } from '../contract/secret-event.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import { ManagedIdentity } from './managed-identity.ts'
import type { ServedChange } from './served-certificate.ts'
import { type Listener, notify, type Subscribers, Subscription } from './subscribers.ts'
import { type IdleAction, UnusedIdentities } from './unused-identities.ts'

/** So many identities that were rejected for want of room are remembered. */
const MAX_REJECTED = 10_000

/** Why an identity is no longer held or, if it is pinned and idle, no longer kept fresh. */
type End = 'forgotten' | 'idle' | 'evicted'

export interface IdentityTableOptions {
  readonly clock: Clock
  readonly maxIdentities: number
  readonly removalGraceMs: number
  readonly idle: { readonly afterMs: number; readonly action: IdleAction }
  /** See {@link ManagedIdentity.phase}. */
  readonly phaseOf: (identity: SpiffeId) => number
  readonly report: (identity: SpiffeId, event: SecretEvent) => void
  readonly keeper: IdentityKeeper
}

/** The work for an identity: the table only decides when. */
export interface IdentityKeeper {
  /** It is new and has no certificate. */
  start(managed: ManagedIdentity): void
  /** Somebody waits for it, and it has no certificate or fails to renew the one that it has. */
  hurry(managed: ManagedIdentity): void
  /** It has another token file. */
  tokenChanged(managed: ManagedIdentity): void
  /** The certificate that it serves has changed, and its subscribers were notified. */
  served(managed: ManagedIdentity, change: ServedChange): void
  /** Nothing more is done for it. Its secrets are wiped afterwards. */
  stop(managed: ManagedIdentity, kind: 'idle' | 'forgotten'): void
}

export class IdentityTable implements Disposable {
  readonly #options: IdentityTableOptions
  readonly #held = new Map<SpiffeId, ManagedIdentity>()
  readonly #subscribers: Subscribers<SpiffeId> = new Map()
  readonly #unused: UnusedIdentities
  /** There was no room for them. */
  readonly #rejected = new Set<SpiffeId>()
  readonly #onServed = (managed: ManagedIdentity, change: ServedChange): void => {
    const { report, keeper } = this.#options
    if (change === 'expired') report(managed.identity, { kind: 'withdrawn', reason: 'expired' })
    notify(this.#subscribers.get(managed.identity), managed.served.current?.secret)
    keeper.served(managed, change)
  }
  readonly #onUnused = (identity: SpiffeId): void => {
    const managed = this.#held.get(identity)
    if (managed) this.#file(managed)
    this.#evictAndAdmit()
  }

  constructor(options: IdentityTableOptions) {
    const { clock, idle } = options
    this.#options = options
    this.#unused = new UnusedIdentities({ clock, idle, onIdle: managed => this.#end(managed, 'idle') })
  }

  /** In the order in which they came. */
  get held(): ReadonlyMap<SpiffeId, ManagedIdentity> {
    return this.#held
  }

  /** Whether somebody subscribed to this very identity: a pattern that matches it is not a reason to keep it. */
  isUsed(identity: SpiffeId): boolean {
    return this.#subscribers.has(identity)
  }

  /** Holds it until `unpin`, whether there is room or not. It keeps its certificate, and a removal is cancelled. */
  pin(identity: SpiffeId, tokenFile: string | undefined): void {
    const { report, keeper } = this.#options
    const present = this.#held.get(identity)
    if (!present) {
      this.#makeRoom()
      this.#add(identity, 'pinned', tokenFile)
      return
    }
    if (present.hold.kind === 'removed') report(identity, { kind: 'kept' })
    if (present.hold.kind !== 'pinned') {
      present.pin()
      this.#file(present)
    }
    if (present.useToken(tokenFile)) keeper.tokenChanged(present)
  }

  /** It is forgotten after the grace period; until then it is held, unless it is unused and its room is needed. */
  unpin(identity: SpiffeId): void {
    const { clock, removalGraceMs, report } = this.#options
    const managed = this.#held.get(identity)
    if (managed?.hold.kind !== 'pinned') return
    const until = clock.now() + removalGraceMs
    managed.unpin(until, () => this.#end(managed, 'forgotten'))
    this.#file(managed)
    report(identity, { kind: 'removed', until })
    this.#evictAndAdmit()
  }

  /** Somebody waits for it. One that is not held is held while it is used and there is room, or once there is. */
  request(identity: SpiffeId): void {
    const present = this.#held.get(identity)
    if (present) this.#hurry(present)
    else if (this.#makeRoom()) this.#add(identity, 'on-demand')
    else this.#reject(identity)
  }

  /** Calls `listener` with each new version, and with `undefined` when it is withdrawn. */
  subscribe(identity: SpiffeId, listener: Listener): Disposable {
    const subscription = new Subscription(this.#subscribers, identity, listener, this.#onUnused)
    const managed = this.#held.get(identity)
    if (managed) {
      this.#file(managed)
      this.#hurry(managed)
    }
    return subscription
  }

  /** Lets it go at once. */
  forget(identity: SpiffeId): void {
    const managed = this.#held.get(identity)
    if (managed) this.#end(managed, 'forgotten')
  }

  /** Forgets all of them, and admits none in their place. */
  [Symbol.dispose](): void {
    this.#unused[Symbol.dispose]()
    this.#rejected.clear()
    for (const identity of [...this.#held.keys()]) this.forget(identity)
  }

  #add(identity: SpiffeId, hold: 'pinned' | 'on-demand', tokenFile?: string): void {
    const { clock, phaseOf, keeper } = this.#options
    const phase = phaseOf(identity)
    const managed = new ManagedIdentity(identity, { clock, phase, hold, tokenFile, onServed: this.#onServed })
    this.#held.set(identity, managed)
    this.#rejected.delete(identity)
    this.#file(managed)
    keeper.start(managed)
  }

  #hurry(managed: ManagedIdentity): void {
    if (!managed.served.current || managed.isFailing) this.#options.keeper.hurry(managed)
  }

  /** Call when it is new, held for another reason, subscribed to, or no longer so. */
  #file(managed: ManagedIdentity): void {
    if (this.isUsed(managed.identity)) this.#unused.delete(managed)
    else this.#unused.add(managed)
  }

  /** As long as somebody is subscribed to it, it is admitted once there is room. */
  #reject(identity: SpiffeId): void {
    const { maxIdentities, report } = this.#options
    this.#rejected.add(identity)
    if (this.#rejected.size > MAX_REJECTED) {
      const [oldest = identity] = this.#rejected
      this.#rejected.delete(oldest)
    }
    report(identity, { kind: 'no-room', maxIdentities })
  }

  /**
   * Call after an identity became unused or was forgotten. Evicts down to `maxIdentities`, which pinned identities may
   * exceed, then admits rejected identities that still have subscribers.
   */
  #evictAndAdmit(): void {
    this.#evictTo(this.#options.maxIdentities)
    for (const identity of this.#rejected) {
      if (this.isUsed(identity) && !this.#makeRoom()) return
      this.#rejected.delete(identity)
      if (this.isUsed(identity)) this.#add(identity, 'on-demand')
    }
  }

  /** Evicts those that were unused for longest until there is room for one more; `false` if there is none. */
  #makeRoom(): boolean {
    return this.#evictTo(this.#options.maxIdentities - 1)
  }

  #evictTo(most: number): boolean {
    while (this.#held.size > most) {
      const first = this.#unused.firstToGo()
      if (!first) return false
      this.#end(first, 'evicted')
    }
    return true
  }

  #end(managed: ManagedIdentity, end: End): void {
    if (end === 'idle' && managed.hold.kind === 'pinned') this.#rest(managed)
    else this.#forget(managed, end)
    // Eviction has made room for somebody already.
    if (end !== 'evicted') this.#evictAndAdmit()
  }

  /** Keeps nothing but its name until somebody subscribes. */
  #rest(managed: ManagedIdentity): void {
    const { report, keeper } = this.#options
    report(managed.identity, { kind: 'withdrawn', reason: 'idle' })
    keeper.stop(managed, 'idle')
    managed.served.clear()
  }

  #forget(managed: ManagedIdentity, reason: End): void {
    const { report, keeper } = this.#options
    const { identity } = managed
    this.#held.delete(identity)
    this.#unused.delete(managed)
    report(identity, { kind: 'withdrawn', reason })
    keeper.stop(managed, 'forgotten')
    managed.release()
    notify(this.#subscribers.get(identity), undefined)
  }
}

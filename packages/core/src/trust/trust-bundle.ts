/** The roots of one trust domain, and how they come and go: first old ∪ new, the old one last. */

import { MAX_ROOTS, MAX_ROOTS_LENGTH, type Root, type StoredRoot, type TrustAnchor } from '../contract/trust-anchor.ts'
import type { TrustBundleSecret } from '../identity/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { bundleSecret } from './bundle-secret.ts'
import {
  type HeldRoot,
  HeldRoots,
  type HeldRootsOptions,
  type IsHeld,
  type MakeRoomOptions,
  NO_OVERLAP,
} from './held-roots.ts'
import type { Revocation, RevocationLists } from './revocation.ts'
import { nameOf, type RootReader } from './root-reader.ts'

/** The result of {@link TrustBundle.learn} and {@link TrustBundle.configure}. */
export interface Learned {
  readonly added: readonly TrustAnchor[]
  /** Roots that the operator had listed before the CA named them. */
  readonly adopted: readonly TrustAnchor[]
  /** Fingerprints of the roots that are no longer listed, new since the last time. */
  readonly givenUp: readonly string[]
  /** Why certificates were left out. */
  readonly rejected: readonly string[]
}

/** The options of {@link TrustBundle.learn}. */
export interface LearnOptions {
  readonly listed: boolean
  readonly complete: boolean
  readonly now: number
  /** Default: no root is held. */
  readonly isHeld?: IsHeld
}

export interface TrustBundleOptions extends HeldRootsOptions {
  /** The identity for which alone its roots count. Default: none, they count for the trust domain. */
  readonly owner?: SpiffeId
  /** The revocation lists that are served beside its roots. */
  readonly lists?: RevocationLists
}

/**
 * Roots compared by the SHA-256 of their DER, never by bytes or order: at most 100, of 1 MB of PEM together, whatever
 * brought them and whenever.
 */
export class TrustBundle {
  readonly trustDomain: string
  readonly owner: SpiffeId | undefined
  readonly #settleMs: number
  readonly #lists: RevocationLists | undefined
  readonly #roots: HeldRoots
  #secret: TrustBundleSecret | undefined

  /** `settleMs`: how long peers get to learn a new root before leaves under it are served. */
  constructor(trustDomain: string, settleMs: number, { owner, lists, ...limits }: TrustBundleOptions = {}) {
    this.owner = owner
    this.trustDomain = trustDomain
    this.#settleMs = settleMs
    this.#roots = new HeldRoots(limits)
    this.#lists = lists
  }

  /** Of its ledger, and of the secret with its roots. */
  get name(): string {
    return this.owner ?? `spiffe://${this.trustDomain}`
  }

  /** The bundle as SDS hands it out, or `undefined` while no root is known. */
  get secret(): TrustBundleSecret | undefined {
    return this.#secret
  }

  anchors(): readonly TrustAnchor[] {
    return this.#roots.values().map(held => held.anchor)
  }

  anchor(fingerprint: string): TrustAnchor | undefined {
    return this.#roots.get(fingerprint)?.anchor
  }

  isGivenUp(fingerprint: string): boolean {
    const held = this.#roots.get(fingerprint)
    return held?.standing === 'given-up' && !held.isConfigured
  }

  /** Whether the CA, or the operator, lists it now. */
  isListed(fingerprint: string): boolean {
    const held = this.#roots.get(fingerprint)
    return held !== undefined && (held.standing === 'listed' || held.isConfigured)
  }

  /** Whether the CA has ever named it. */
  isNamed(fingerprint: string): boolean {
    return this.#roots.get(fingerprint)?.standing !== undefined
  }

  /** Whether no root of the CA is in it: the next one has no older one to follow. */
  get hasNoneOfTheCA(): boolean {
    return this.#roots.values().every(({ standing }) => standing === undefined)
  }

  /** Leaves under older roots follow from now on; `false` if they have begun to already. */
  follow(fingerprint: string, now: number): boolean {
    const held = this.#roots.get(fingerprint)
    if (!held || held.followedAt !== undefined) return false
    held.followedAt = now
    return true
  }

  /** Whether leaves under this root are to follow a newer one since `time`. */
  isSuperseded(fingerprint: string, time: number): boolean {
    const learnedAt = this.#roots.get(fingerprint)?.anchor.learnedAt ?? 0
    return this.#roots.values().some(({ anchor, followedAt = 0 }) => followedAt > time && anchor.learnedAt > learnedAt)
  }

  /** Gives a root up as an operator: it leaves as soon as no leaf needs it. A root that is listed would come back. */
  drop(fingerprint: string): void {
    const held = this.#roots.get(fingerprint)
    if (!held) return
    held.standing = 'given-up'
    held.givenUpAt = NO_OVERLAP
  }

  /** Leaves in use or waiting under a root. */
  leaves(fingerprint: string): number {
    return this.#roots.get(fingerprint)?.leases ?? 0
  }

  /** Whether nobody lists any of its roots and no leaf needs one. */
  get isUnneeded(): boolean {
    return this.#roots
      .values()
      .every(({ standing, isConfigured, leases }) => standing === 'given-up' && !isConfigured && leases === 0)
  }

  /** When the next root expires, milliseconds since the epoch; `undefined` if none does. */
  nextExpiry(now: number): number | undefined {
    const later = this.#roots
      .values()
      .map(({ anchor }) => anchor.notAfter)
      .filter(notAfter => notAfter > now)
    return later.length === 0 ? undefined : Math.min(...later)
  }

  /**
   * Adds roots, the first ones if the bundle is full. `listed`: the CA lists them. `complete`: the list is whole, so
   * that roots that are missing from it can go once nothing needs them. They go at once if a listed root needs their
   * place and no operator holds them (`isHeld`). Without `complete` no root is removed before it has expired.
   */
  learn(roots: readonly Root[], { listed, complete, now, isHeld }: LearnOptions): Learned {
    const settlesAt = this.#settlesAt(now)
    // A list without one good root is a fault at the CA, not a wish to trust nobody.
    const isWhole = complete && roots.length > 0
    const givenUp = isWhole ? this.#giveUpAllBut(new Set(roots.map(root => root.fingerprint)), now) : []
    const standing = listed ? 'listed' : 'inferred'
    const adopted: TrustAnchor[] = []
    const news = roots.filter(({ fingerprint }) => {
      const held = this.#roots.get(fingerprint)
      if (!held) return true
      if (held.standing === undefined) adopted.push(held.anchor)
      if (listed || held.standing === undefined) {
        held.standing = standing
        held.givenUpAt = undefined
      }
      return false
    })
    // As with nearly every certificate of a quiet day.
    if (news.length === 0) return { added: [], rejected: [], adopted, givenUp }
    const how = { now, settlesAt, isWhole, isHeld }
    const added = this.#add(news, how, { standing, isConfigured: false })
    return { ...added, adopted, givenUp }
  }

  /**
   * Replaces the roots that the operator lists. No list of the CA removes them; those that were listed before stay while
   * the CA lists them or a leaf needs them, or an operator holds them (`isHeld`).
   */
  configure(roots: readonly Root[], now: number, isHeld?: IsHeld): Learned {
    const settlesAt = this.#settlesAt(now)
    const configured = new Set(roots.map(({ fingerprint }) => fingerprint))
    const givenUp: string[] = []
    for (const held of this.#roots.values()) {
      const { fingerprint } = held.anchor
      if (held.isConfigured && !configured.has(fingerprint)) {
        held.standing ??= 'given-up'
        if (held.standing === 'given-up') {
          // Nobody but the operator had listed it: no other node needs it longer.
          held.givenUpAt = NO_OVERLAP
          givenUp.push(fingerprint)
        }
      }
      held.isConfigured = configured.has(fingerprint)
    }
    const news = roots.filter(({ fingerprint }) => !this.#roots.get(fingerprint))
    const how = { now, settlesAt, isWhole: true, isHeld }
    const added = this.#add(news, how, { standing: undefined, isConfigured: true })
    return { ...added, adopted: [], givenUp }
  }

  /** Takes up the roots of the previous process, as they were. Gives why some were left out. */
  restore(roots: readonly StoredRoot[], reader: RootReader, now: number): readonly string[] {
    const rejected: string[] = []
    for (const { pem, learnedAt, settlesAt, standing, leavesUntil, ...times } of roots.slice(0, MAX_ROOTS)) {
      const root = pem.length > MAX_ROOTS_LENGTH - this.#roots.length ? 'there is no room for it' : reader.readOne(pem)
      if (typeof root === 'string' || root.notAfter <= now) {
        rejected.push(typeof root === 'string' ? root : `${nameOf(root.certificate)} has expired`)
        continue
      }
      const anchor = {
        ...root,
        learnedAt: Math.min(learnedAt, now),
        settlesAt: Math.min(settlesAt, now + this.#settleMs),
      }
      const { followedAt, givenUpAt = standing === 'given-up' ? now : undefined } = times
      this.#roots.put({ anchor, standing, isConfigured: false, leases: 0, leavesUntil, followedAt, givenUpAt })
    }
    if (this.#roots.size > 0) this.#rebuild()
    return rejected
  }

  /** The revocation lists are others: its secret has them from now on. */
  refresh(): void {
    if (this.#secret) this.#rebuild()
  }

  /** The lists that are served beside these roots. */
  revocationOf(roots: readonly Root[]): Revocation | undefined {
    return this.#lists?.for(roots)
  }

  /** Lets go of all; the bundle is not used again. */
  clear(): void {
    for (const { anchor } of this.#roots.values()) this.#roots.delete(anchor)
    this.#secret = undefined
  }

  /** The roots as `restore` takes them up, without those that only the operator lists, each with its `phase`. */
  stored(
    phase: (fingerprint: string) => Pick<StoredRoot, 'isAnnouncing' | 'isHeld'> = () => ({}),
  ): readonly StoredRoot[] {
    return this.#roots.values().flatMap(({ anchor, standing, leavesUntil, givenUpAt, followedAt }) => {
      const { pem, learnedAt, settlesAt, fingerprint } = anchor
      if (standing === undefined) return []
      const times = { ...(givenUpAt !== undefined && { givenUpAt }), ...(followedAt !== undefined && { followedAt }) }
      return [{ pem, learnedAt, settlesAt, standing, leavesUntil, ...times, ...phase(fingerprint) }]
    })
  }

  /** Keeps a root while a leaf under it, valid until `notAfter`, is in use or waits; dispose it when the leaf goes. */
  lease(fingerprint: string, notAfter: number): Disposable {
    const held = this.#roots.get(fingerprint)
    if (!held) throw new TypeError(`Cannot lease root ${fingerprint}: the bundle does not hold it`)
    held.leases++
    held.leavesUntil = Math.max(held.leavesUntil, notAfter)
    return { [Symbol.dispose]: () => void held.leases-- }
  }

  /**
   * Removes roots that are expired, given up for the whole overlap, or – if the CA publishes no list – superseded by a newer
   * root once all leaves under them have expired. Keeps leased roots, those that an operator lists or holds (`isHeld`), until
   * they expire, and the last one always. Returns those that were removed.
   */
  prune(now: number, isHeld: IsHeld = () => false): readonly TrustAnchor[] {
    const unneeded = this.#roots.values().filter(held => {
      // A leaf under an expired root has expired with it.
      if (held.anchor.notAfter <= now) return true
      return !isHeld(held.anchor.fingerprint) && this.#roots.unneededAt(held) <= now
    })
    const removed: TrustAnchor[] = []
    for (const { anchor } of unneeded) {
      if (this.#roots.size === 1) break
      this.#roots.delete(anchor)
      removed.push(anchor)
    }
    if (removed.length > 0) this.#rebuild()
    return removed
  }

  /** When {@link prune} has something to remove, expired roots aside; infinite if that is not known. */
  prunableAt(isHeld: IsHeld): number {
    const candidates = this.#roots.values().filter(({ anchor }) => !isHeld(anchor.fingerprint))
    if (this.#roots.size === 1) return Number.POSITIVE_INFINITY
    return Math.min(...candidates.map(held => this.#roots.unneededAt(held)))
  }

  /** When a root leaves, as things are; infinite while somebody lists it or a leaf needs it. */
  leavesAt(fingerprint: string): number {
    const held = this.#roots.get(fingerprint)
    return held ? this.#roots.unneededAt(held) : Number.POSITIVE_INFINITY
  }

  /** Only a root that comes after others of the CA can meet peers that do not know it. */
  #settlesAt(now: number): number {
    return this.hasNoneOfTheCA ? now : now + this.#settleMs
  }

  #add(
    roots: readonly Root[],
    { settlesAt, ...how }: MakeRoomOptions & { readonly settlesAt: number },
    origin: Pick<HeldRoot, 'standing' | 'isConfigured'>,
  ): Pick<Learned, 'added' | 'rejected'> {
    const { size } = this.#roots
    const added: TrustAnchor[] = []
    const rejected: string[] = []
    // Later than all others, so that their order is known even where the clock was set back.
    const learnedAt = Math.max(how.now, ...this.#roots.values().map(({ anchor }) => anchor.learnedAt + 1))
    for (const root of roots) {
      if (!this.#roots.makeRoom(root, how)) {
        rejected.push(`${nameOf(root.certificate)} has no room beside the ${this.#roots.size} that are trusted`)
        continue
      }
      const anchor = { ...root, learnedAt, settlesAt }
      this.#roots.put({ anchor, ...origin, leases: 0, leavesUntil: 0 })
      added.push(anchor)
    }
    if (added.length > 0 || this.#roots.size < size) this.#rebuild()
    return { added, rejected }
  }

  #giveUpAllBut(listed: ReadonlySet<string>, now: number): string[] {
    const givenUp: string[] = []
    for (const held of this.#roots.values()) {
      const { fingerprint } = held.anchor
      if (listed.has(fingerprint) || held.standing === undefined || held.standing === 'given-up') continue
      held.standing = 'given-up'
      held.givenUpAt = now
      givenUp.push(fingerprint)
    }
    return givenUp
  }

  #rebuild(): void {
    const anchors = this.anchors()
    this.#secret = bundleSecret(this.trustDomain, anchors, this.revocationOf(anchors))
  }
}

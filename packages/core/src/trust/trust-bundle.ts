/** The roots of one trust domain, and how they come and go: first old ∪ new, the old one last. */

import type { Root, StoredRoot, TrustAnchor } from '../contract/trust-anchor.ts'
import type { TrustBundleSecret } from '../secrets/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { type BundleRoot, isGone, NO_OVERLAP } from './bundle-root.ts'
import { BundleRoots } from './bundle-roots.ts'
import { bundleSecret } from './bundle-secret.ts'
import type { RevocationLists } from './revocation.ts'
import { RevokedRoots } from './revoked-roots.ts'
import { nameOf, type RootReader } from './root-reader.ts'
import { readStored, toStored } from './stored-roots.ts'

/** The result of {@link TrustBundle.learn} and {@link TrustBundle.configure}. */
export interface Learned {
  readonly added: readonly TrustAnchor[]
  /** Roots that the operator had listed before the CA named them. */
  readonly adopted: readonly TrustAnchor[]
  /** Fingerprints of the roots that are no longer listed, new since the last time. */
  readonly givenUp: readonly string[]
  /** Whether a root that answers alone name was named again, or left out for the first time. */
  readonly isRenamed: boolean
  /** Why certificates were left out. */
  readonly rejected: readonly string[]
}

/** Where the CA named roots: in its own list, or in an answer with a certificate that is valid until `notAfter`. */
export type NamedIn = { readonly kind: 'list' } | { readonly kind: 'answer'; readonly notAfter: number }

/**
 * Roots compared by the SHA-256 of their DER, never by bytes or order: at most 100, of 1 MB of PEM together, whatever
 * brought them and whenever.
 */
export class TrustBundle {
  readonly trustDomain: string
  readonly owner: SpiffeId | undefined
  readonly #settleMs: number
  readonly lists: RevocationLists | undefined
  readonly roots: BundleRoots
  readonly #revoked = new RevokedRoots()
  #secret: TrustBundleSecret | undefined
  /** When the next unneeded root leaves, milliseconds since the epoch; infinite if none will. */
  pruneAt = Number.POSITIVE_INFINITY
  /** Its place among the wakes. */
  place = -1
  /** When the next root expires; infinite if none does. */
  expiresAt = Number.POSITIVE_INFINITY

  /**
   * `settleMs`: how long peers get to learn a new root before leaves under it are served. `lists`: served beside its roots.
   * `owner`: the identity for which alone its roots count; without one they count for the trust domain.
   */
  constructor(
    trustDomain: string,
    settleMs: number,
    roots = new BundleRoots(),
    lists?: RevocationLists,
    owner?: SpiffeId,
  ) {
    this.owner = owner
    this.trustDomain = trustDomain
    this.#settleMs = settleMs
    this.roots = roots
    this.lists = lists
  }

  /** The name of its ledger. */
  get name(): string {
    return this.owner ?? `spiffe://${this.trustDomain}`
  }

  /** The bundle as SDS hands it out, or `undefined` while no root is known. */
  get secret(): TrustBundleSecret | undefined {
    return this.#secret
  }

  anchors(): readonly TrustAnchor[] {
    return this.roots.values().map(present => present.anchor)
  }

  anchor(fingerprint: string): TrustAnchor | undefined {
    return this.roots.get(fingerprint)?.anchor
  }

  isGivenUp(fingerprint: string): boolean {
    const present = this.roots.get(fingerprint)
    return present !== undefined && isGone(present) && !present.isConfigured
  }

  /** Whether it was revoked: no answer brings it back. */
  isRevoked(fingerprint: string): boolean {
    return this.#revoked.has(fingerprint)
  }

  /** Gives a root up as an operator: it leaves as soon as no leaf needs it. A root on a list would come back. */
  drop(fingerprint: string): void {
    const present = this.roots.get(fingerprint)
    if (!present) return
    present.standing = 'revoked'
    present.givenUpAt = NO_OVERLAP
    this.#revoked.add(present.anchor)
  }

  /**
   * Removes roots that the CA has revoked, also those that leaves need: the last one aside, and those that an operator
   * lists or holds. Returns those that were removed.
   */
  revoke(fingerprints: readonly string[]): readonly TrustAnchor[] {
    for (const fingerprint of fingerprints) this.drop(fingerprint)
    const found = this.roots
      .values()
      .filter(
        ({ anchor, isConfigured, isHeld }) => !isConfigured && !isHeld && fingerprints.includes(anchor.fingerprint),
      )
    return this.#remove(found)
  }

  /** When its next work falls due; infinite if none does. */
  get nextAt(): number {
    const looks = this.roots.values().map(({ announcement }) => announcement?.lookAt ?? Number.POSITIVE_INFINITY)
    return Math.min(this.pruneAt, this.expiresAt, ...looks)
  }

  /**
   * Adds roots, the first ones if the bundle is full. `complete`: the list or answer is whole. A root that is missing from a
   * whole list is given up: it leaves once nothing needs it, or at once if a listed root needs its place and no operator
   * holds it. A root that only answers named leaves later, after they leave it out: another replica of the CA may still
   * name it, and peers have older leaves under it. Without `complete` nothing is given up.
   */
  learn(roots: readonly Root[], from: NamedIn, complete: boolean, now: number): Learned {
    const settlesAt = this.#settlesAt(now)
    // A list without one good root is a fault at the CA, not a wish to trust nobody.
    const isWhole = complete && roots.length > 0
    const named = new Set(roots.map(root => root.fingerprint))
    const isList = from.kind === 'list'
    if (isList) for (const fingerprint of named) this.#revoked.delete(fingerprint)
    const givenUp = isWhole && isList ? this.roots.giveUpAllBut(named, now) : []
    let isRenamed = isWhole && !isList && this.roots.leaveOutAllBut(named, now, from.notAfter)
    const standing = isList ? 'listed' : 'inferred'
    const adopted: TrustAnchor[] = []
    const news = roots.filter(({ fingerprint }) => {
      if (this.#revoked.has(fingerprint)) return false
      const present = this.roots.get(fingerprint)
      if (!present) return true
      if (present.standing === undefined) adopted.push(present.anchor)
      else if (!isList && present.standing === 'listed') return false
      isRenamed ||= present.standing !== standing || present.givenUpAt !== undefined
      present.standing = standing
      present.givenUpAt = undefined
      return false
    })
    // The common case: nearly every certificate brings no new root.
    if (news.length === 0) return { added: [], rejected: [], adopted, givenUp, isRenamed }
    const how = { now, settlesAt, isWhole: isWhole && isList }
    const leavesUntil = from.kind === 'answer' ? from.notAfter : 0
    const added = this.#add(news, how, { standing, isConfigured: false, leavesUntil })
    return { ...added, adopted, givenUp, isRenamed }
  }

  /**
   * Replaces the operator's roots, which no list of the CA removes. Roots that the operator listed before stay while the CA
   * lists them, a leaf needs them, or an operator holds them.
   */
  configure(roots: readonly Root[], now: number): Learned {
    const settlesAt = this.#settlesAt(now)
    const configured = new Set(roots.map(({ fingerprint }) => fingerprint))
    for (const fingerprint of configured) this.#revoked.delete(fingerprint)
    const givenUp = this.roots.configure(configured)
    const news = roots.filter(({ fingerprint }) => !this.roots.get(fingerprint))
    const how = { now, settlesAt, isWhole: true }
    const added = this.#add(news, how, { standing: undefined, isConfigured: true })
    return { ...added, adopted: [], givenUp, isRenamed: false }
  }

  /** Restores the roots of the previous process. Returns why some were left out. */
  restore(stored: readonly StoredRoot[], read: RootReader['readOne'], now: number): readonly string[] {
    const { roots, revoked, rejected } = readStored(stored, read, now, this.#settleMs)
    for (const anchor of revoked) this.#revoked.add(anchor)
    for (const root of roots) this.roots.put(root)
    if (roots.length > 0) this.#rebuild()
    return rejected
  }

  /** The roots as {@link restore} takes them up, without those that only the operator lists. */
  stored(): readonly StoredRoot[] {
    const present = this.roots.values().flatMap(toStored)
    return [...present, ...this.#revoked.stored(present)]
  }

  /** Rebuilds its secret after the revocation lists changed. */
  refresh(): void {
    if (this.#secret) this.#rebuild()
  }

  /** Fingerprints of the roots, these or those that it holds, that a revocation list of their issuer names. */
  revokedByLists(others: readonly Root[] = []): readonly string[] {
    return this.lists?.revoked([...this.anchors(), ...others]).map(({ fingerprint }) => fingerprint) ?? []
  }

  /** Releases all roots; the bundle is not used again. */
  clear(): void {
    for (const { anchor } of this.roots.values()) this.roots.delete(anchor)
    this.#secret = undefined
  }

  /** Removes roots that are {@link BundleRoots.unneeded | unneeded}; the last one stays. Returns those that were removed. */
  prune(now: number): readonly TrustAnchor[] {
    return this.#remove(this.roots.unneeded(now))
  }

  /** Only a root that comes after others of the CA can meet peers that do not know it. */
  #settlesAt(now: number): number {
    return this.roots.hasNoneOfTheCA ? now : now + this.#settleMs
  }

  #add(
    roots: readonly Root[],
    { now, settlesAt, isWhole }: { readonly now: number; readonly settlesAt: number; readonly isWhole: boolean },
    origin: Pick<BundleRoot, 'standing' | 'isConfigured'> & Partial<Pick<BundleRoot, 'leavesUntil'>>,
  ): Pick<Learned, 'added' | 'rejected'> {
    const { size } = this.roots
    const added: TrustAnchor[] = []
    const rejected: string[] = []
    // Later than all others, so that their order is known even where the clock was set back.
    const learnedAt = Math.max(now, ...this.roots.values().map(({ anchor }) => anchor.learnedAt + 1))
    const revoked = new Set(this.revokedByLists(roots))
    for (const root of roots) {
      if (revoked.has(root.fingerprint)) {
        rejected.push(`${nameOf(root.certificate)} is named by a revocation list of its issuer`)
        continue
      }
      if (!this.roots.makeRoom(root, now, isWhole)) {
        rejected.push(`${nameOf(root.certificate)} has no room beside the ${this.roots.size} that are trusted`)
        continue
      }
      const anchor = { ...root, learnedAt, settlesAt }
      this.roots.put({ anchor, leavesUntil: 0, ...origin, leases: 0, announcement: undefined, isHeld: false })
      added.push(anchor)
    }
    if (added.length > 0 || this.roots.size < size) this.#rebuild()
    return { added, rejected }
  }

  /** The last root of all stays. Returns those that were removed. */
  #remove(roots: readonly BundleRoot[]): readonly TrustAnchor[] {
    const removed: TrustAnchor[] = []
    for (const { anchor } of roots) {
      if (this.roots.size === 1) break
      this.roots.delete(anchor)
      removed.push(anchor)
    }
    if (removed.length > 0) this.#rebuild()
    return removed
  }

  #rebuild(): void {
    const anchors = this.anchors()
    this.#secret = bundleSecret(this.trustDomain, anchors, this.lists?.for(anchors))
  }
}

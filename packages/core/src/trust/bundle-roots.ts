/** The roots that one bundle holds, each with its standing and its leases: how many fit, which gives way, and when each is unneeded. */

import { MAX_ROOTS, MAX_ROOTS_LENGTH, type Root, type TrustAnchor } from '../contract/trust-anchor.ts'
import { type BundleRoot, isGone, NO_OVERLAP } from './bundle-root.ts'
import type { RootBudget } from './root-budget.ts'

/** Roots by fingerprint in order of arrival: at most 100, with `maxLength` characters of PEM together. */
export class BundleRoots {
  readonly #maxLength: number
  readonly #overlapMs: number
  readonly #budget: RootBudget | undefined
  readonly #roots = new Map<string, BundleRoot>()
  /** Leaf counts of roots that were removed while in use: a root that comes back gets its count back. */
  readonly #orphans = new Map<string, number>()
  #length = 0

  /**
   * `overlapMs`: how long a root stays after it was given up. `maxLength`: the most characters of PEM together. `budget`:
   * the room that it shares with other bundles.
   */
  constructor(overlapMs = 0, maxLength = MAX_ROOTS_LENGTH, budget?: RootBudget) {
    this.#overlapMs = overlapMs
    this.#maxLength = maxLength
    this.#budget = budget
  }

  get size(): number {
    return this.#roots.size
  }

  get(fingerprint: string): BundleRoot | undefined {
    return this.#roots.get(fingerprint)
  }

  values(): BundleRoot[] {
    return [...this.#roots.values()]
  }

  /** Whether leaves under it may be served. */
  isTrusted(fingerprint: string): boolean {
    const present = this.#roots.get(fingerprint)
    return !present || (!present.announcement && !present.isHeld)
  }

  /** Whether no root of the CA is in it: the next one has no older one to follow. */
  get hasNoneOfTheCA(): boolean {
    return this.values().every(({ standing }) => standing === undefined)
  }

  /** Leaves under older roots follow from now on; `false` if they have begun to already. */
  follow(fingerprint: string, now: number): boolean {
    const present = this.#roots.get(fingerprint)
    if (!present || present.followedAt !== undefined) return false
    present.followedAt = now
    return true
  }

  /** Whether leaves under this root are to follow a newer one since `time`. */
  isSuperseded(fingerprint: string, time: number): boolean {
    const learnedAt = this.#roots.get(fingerprint)?.anchor.learnedAt ?? 0
    return this.values().some(({ anchor, followedAt = 0 }) => followedAt > time && anchor.learnedAt > learnedAt)
  }

  /** Whether nobody lists any of its roots and no leaf needs one. */
  get isUnneeded(): boolean {
    return this.values().every(present => isGone(present) && !present.isConfigured && present.leases === 0)
  }

  put(present: BundleRoot): void {
    const { fingerprint, pem } = present.anchor
    if (this.#roots.has(fingerprint)) return
    present.leases += this.#orphans.get(fingerprint) ?? 0
    this.#orphans.delete(fingerprint)
    this.#roots.set(fingerprint, present)
    this.#length += pem.length
  }

  delete(anchor: TrustAnchor): void {
    const { leases = 0 } = this.#roots.get(anchor.fingerprint) ?? {}
    if (!this.#roots.delete(anchor.fingerprint)) return
    if (leases > 0) this.#orphans.set(anchor.fingerprint, leases)
    this.#length -= anchor.pem.length
    this.#budget?.release(anchor)
  }

  /** Keeps a root while a leaf under it is in use or waits: until {@link unlease}. */
  lease(fingerprint: string): void {
    const present = this.#roots.get(fingerprint)
    if (!present) throw new TypeError(`Cannot lease root ${fingerprint}: the bundle does not hold it`)
    present.leases++
  }

  /** A leaf under the root is gone; the root may be gone, too. */
  unlease(fingerprint: string): void {
    const present = this.#roots.get(fingerprint)
    const orphans = this.#orphans.get(fingerprint) ?? 0
    if (present) present.leases--
    else if (orphans > 1) this.#orphans.set(fingerprint, orphans - 1)
    else this.#orphans.delete(fingerprint)
  }

  /**
   * Makes room for one more root; returns whether there is any. Roots that are not in use give way: expired ones first, then,
   * for a root of the CA's complete list, roots that the CA no longer names and no operator holds, the longest known first. No
   * other root is ever evicted: an attacker who could evict would choose the trusted roots.
   */
  makeRoom(root: Root, now: number, isWhole: boolean): boolean {
    const fits = () => this.size < MAX_ROOTS && this.#length + root.pem.length <= this.#maxLength
    if (!fits()) {
      for (const { anchor, leases } of this.#roots.values())
        if (leases === 0 && anchor.notAfter <= now) this.delete(anchor)
      for (const { anchor, leases, givenUpAt, isConfigured, isHeld } of this.#roots.values()) {
        if (fits() || !isWhole) break
        const isNeeded = leases > 0 || isConfigured || isHeld
        if (givenUpAt !== undefined && !isNeeded) this.delete(anchor)
      }
    }
    return fits() && (this.#budget?.take(root) ?? true)
  }

  /** The CA's list has only these. Returns the fingerprints that it no longer has. */
  giveUpAllBut(listed: ReadonlySet<string>, now: number): string[] {
    const givenUp: string[] = []
    for (const present of this.#roots.values()) {
      const { fingerprint } = present.anchor
      if (present.standing !== 'listed' || listed.has(fingerprint)) continue
      present.standing = 'given-up'
      present.givenUpAt = now
      givenUp.push(fingerprint)
    }
    return givenUp
  }

  /** The operator lists only these. Returns the fingerprints that nobody lists any longer. */
  configure(configured: ReadonlySet<string>): string[] {
    const givenUp: string[] = []
    for (const present of this.#roots.values()) {
      const { fingerprint } = present.anchor
      if (present.isConfigured && !configured.has(fingerprint)) {
        present.standing ??= 'given-up'
        if (present.standing === 'given-up') {
          // Only the operator had listed it: no other node needs it longer.
          present.givenUpAt = NO_OVERLAP
          givenUp.push(fingerprint)
        }
      }
      present.isConfigured = configured.has(fingerprint)
    }
    return givenUp
  }

  /** An answer whose certificate ends at `notAfter` has only these. Returns whether it newly leaves out a root. */
  leaveOutAllBut(named: ReadonlySet<string>, now: number, notAfter: number): boolean {
    let some = false
    for (const present of this.#roots.values()) {
      const isNamed = named.has(present.anchor.fingerprint)
      if (!isNamed && (present.standing !== 'inferred' || present.givenUpAt !== undefined)) continue
      // The maximum over all answers: a CA can give a certificate of minutes among certificates of a day.
      present.leavesUntil = Math.max(present.leavesUntil, notAfter)
      if (isNamed) continue
      present.givenUpAt = now
      some = true
    }
    return some
  }

  /**
   * When a root becomes unneeded, as things are: after the overlap if it was given up; if only answers name it, not before
   * peers' leaves under it end. Infinite while a source lists it or a leaf here needs it.
   */
  unneededAt({ standing, isConfigured, leases, leavesUntil, givenUpAt }: BundleRoot): number {
    if (leases > 0 || isConfigured || givenUpAt === undefined) return Number.POSITIVE_INFINITY
    const overlapEnd = givenUpAt + this.#overlapMs
    return standing === 'inferred' ? Math.max(overlapEnd, leavesUntil) : overlapEnd
  }

  /** Those that are expired, or unneeded by now and not held by an operator. */
  unneeded(now: number): readonly BundleRoot[] {
    // A leaf under an expired root has expired with it.
    return this.values().filter(each => each.anchor.notAfter <= now || (!each.isHeld && this.unneededAt(each) <= now))
  }

  /**
   * When the next one may leave, expired roots aside; infinite if that is not known. Roots that were not revoked stay until
   * `settledAt` at least.
   */
  nextUnneededAt(settledAt: number): number {
    if (this.size === 1) return Number.POSITIVE_INFINITY
    const times = this.values().map(root => {
      if (root.isHeld) return Number.POSITIVE_INFINITY
      return root.standing === 'revoked' ? this.unneededAt(root) : Math.max(this.unneededAt(root), settledAt)
    })
    return Math.min(...times)
  }

  /** When the next root expires, milliseconds since the epoch; infinite if none does. */
  nextExpiry(now: number): number {
    const ends = this.values().map(({ anchor }) => anchor.notAfter)
    return Math.min(...ends.filter(notAfter => notAfter > now))
  }
}

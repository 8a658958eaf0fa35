/** The roots of one trust domain, and how they come and go: first old ∪ new, the old one last. */

import type { Standing, StoredRoot, TrustAnchor } from '../contract/trust-anchor.ts'
import { MAX_ROOTS, MAX_ROOTS_LENGTH, type Root } from '../contract/trust-anchor.ts'
import type { TrustBundleSecret } from '../identity/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { bundleSecret } from './bundle-secret.ts'
import type { Revocation, RevocationLists } from './revocation.ts'
import type { RootBudget } from './root-budget.ts'
import { nameOf, type RootReader } from './root-reader.ts'

interface Held {
  readonly anchor: TrustAnchor
  /** Absent where the CA has never named it. */
  standing: Standing | undefined
  /** Whether the operator lists it: then nothing but its notAfter removes it. */
  isConfigured: boolean
  /** Leaves in use or waiting that chain to it. */
  leases: number
  /** The latest notAfter of a leaf seen under it. */
  leavesUntil: number
  /** Since when nobody lists it. */
  givenUpAt?: number | undefined
  /** When leaves under older roots began to follow. */
  followedAt?: number | undefined
}

/** When a root was given up that leaves as soon as nothing needs it: long ago. */
const NO_OVERLAP = Number.MIN_SAFE_INTEGER

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

/** Whether an operator keeps a root where it is. */
export type IsHeld = (fingerprint: string) => boolean

/** The options of {@link TrustBundle.learn}. */
export interface LearnOptions {
  readonly listed: boolean
  readonly complete: boolean
  readonly now: number
  /** Default: no root is held. */
  readonly isHeld?: IsHeld
}

interface AddOptions {
  readonly now: number
  /** Whether the roots are from a whole list. */
  readonly isWhole: boolean
  readonly isHeld: IsHeld | undefined
}

export interface TrustBundleOptions {
  /** The identity for which alone its roots count. Default: none, they count for the trust domain. */
  readonly owner?: SpiffeId
  /** Of the PEM of all, in characters. Default: 1 MB. */
  readonly maxLength?: number
  /** How long a root stays after it was given up, milliseconds. Default: 0. */
  readonly overlapMs?: number
  /** The room that it shares with other bundles. */
  readonly budget?: RootBudget
  /** Those that are served beside its roots. */
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
  readonly #overlapMs: number
  readonly #maxLength: number
  readonly #budget: RootBudget | undefined
  readonly #lists: RevocationLists | undefined
  readonly #held = new Map<string, Held>()
  /** Of the PEM of all that are held. */
  #length = 0
  #secret: TrustBundleSecret | undefined

  /** `settleMs`: how long peers get to learn a new root before leaves under it are served. */
  constructor(
    trustDomain: string,
    settleMs: number,
    { owner, maxLength = MAX_ROOTS_LENGTH, overlapMs = 0, budget, lists }: TrustBundleOptions = {},
  ) {
    this.owner = owner
    this.trustDomain = trustDomain
    this.#settleMs = settleMs
    this.#overlapMs = overlapMs
    this.#maxLength = maxLength
    this.#budget = budget
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
    return [...this.#held.values()].map(held => held.anchor)
  }

  anchor(fingerprint: string): TrustAnchor | undefined {
    return this.#held.get(fingerprint)?.anchor
  }

  isGivenUp(fingerprint: string): boolean {
    const held = this.#held.get(fingerprint)
    return held?.standing === 'given-up' && !held.isConfigured
  }

  /** Whether the CA, or the operator, lists it now. */
  isListed(fingerprint: string): boolean {
    const held = this.#held.get(fingerprint)
    return held !== undefined && (held.standing === 'listed' || held.isConfigured)
  }

  /** Whether the CA has ever named it. */
  isNamed(fingerprint: string): boolean {
    return this.#held.get(fingerprint)?.standing !== undefined
  }

  /** Whether no root of the CA is in it: the next one has no older one to follow. */
  get hasNoneOfTheCA(): boolean {
    return [...this.#held.values()].every(({ standing }) => standing === undefined)
  }

  /** Leaves under older roots follow from now on; `false` if they have begun to already. */
  follow(fingerprint: string, now: number): boolean {
    const held = this.#held.get(fingerprint)
    if (!held || held.followedAt !== undefined) return false
    held.followedAt = now
    return true
  }

  /** Whether leaves under this root are to follow a newer one since `time`. */
  isSuperseded(fingerprint: string, time: number): boolean {
    const learnedAt = this.#held.get(fingerprint)?.anchor.learnedAt ?? 0
    return [...this.#held.values()].some(
      ({ anchor, followedAt = 0 }) => followedAt > time && anchor.learnedAt > learnedAt,
    )
  }

  /** Gives a root up as an operator: it leaves as soon as no leaf needs it. A root that is listed would come back. */
  drop(fingerprint: string): void {
    const held = this.#held.get(fingerprint)
    if (!held) return
    held.standing = 'given-up'
    held.givenUpAt = NO_OVERLAP
  }

  /** Leaves in use or waiting under a root. */
  leaves(fingerprint: string): number {
    return this.#held.get(fingerprint)?.leases ?? 0
  }

  /** Whether nobody lists any of its roots and no leaf needs one. */
  get isUnneeded(): boolean {
    return [...this.#held.values()].every(
      ({ standing, isConfigured, leases }) => standing === 'given-up' && !isConfigured && leases === 0,
    )
  }

  /** When the next root expires, milliseconds since the epoch; `undefined` if none does. */
  nextExpiry(now: number): number | undefined {
    const later = [...this.#held.values()].map(({ anchor }) => anchor.notAfter).filter(notAfter => notAfter > now)
    return later.length === 0 ? undefined : Math.min(...later)
  }

  /**
   * Adds roots, the first ones where the bundle is full. `listed`: the CA lists them. `complete`: it trusts these and no
   * others, so that the missing ones may go once nothing needs them: at once where a listed one needs their place, except
   * those that an operator holds (`isHeld`). Otherwise never removes a root that has not expired.
   */
  learn(roots: readonly Root[], { listed, complete, now, isHeld }: LearnOptions): Learned {
    const settlesAt = this.#settlesAt(now)
    // A list without one good root is a fault at the CA, not a wish to trust nobody.
    const isWhole = complete && roots.length > 0
    const givenUp = isWhole ? this.#giveUpAllBut(new Set(roots.map(root => root.fingerprint)), now) : []
    const standing = listed ? 'listed' : 'inferred'
    const adopted: TrustAnchor[] = []
    const news = roots.filter(({ fingerprint }) => {
      const held = this.#held.get(fingerprint)
      if (!held) return true
      if (held.standing === undefined) adopted.push(held.anchor)
      if (listed || held.standing === undefined) {
        held.standing = standing
        held.givenUpAt = undefined
      }
      return false
    })
    const added = this.#add(news, { now, settlesAt, isWhole, isHeld }, { standing, isConfigured: false })
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
    for (const [fingerprint, held] of this.#held) {
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
    const news = roots.filter(({ fingerprint }) => !this.#held.has(fingerprint))
    const how = { now, settlesAt, isWhole: true, isHeld }
    const added = this.#add(news, how, { standing: undefined, isConfigured: true })
    return { ...added, adopted: [], givenUp }
  }

  /** Takes up the roots of the previous process, as they were. Gives why some were left out. */
  restore(roots: readonly StoredRoot[], reader: RootReader, now: number): readonly string[] {
    const rejected: string[] = []
    for (const { pem, learnedAt, settlesAt, standing, leavesUntil, ...times } of roots.slice(0, MAX_ROOTS)) {
      const root = pem.length > MAX_ROOTS_LENGTH - this.#length ? 'there is no room for it' : reader.readOne(pem)
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
      this.#hold({ anchor, standing, isConfigured: false, leases: 0, leavesUntil, followedAt, givenUpAt })
    }
    if (this.#held.size > 0) this.#rebuild()
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
    for (const { anchor } of this.#held.values()) this.#drop(anchor)
    this.#secret = undefined
  }

  /** The roots as `restore` takes them up, without those that only the operator lists, each with its `phase`. */
  stored(
    phase: (fingerprint: string) => Pick<StoredRoot, 'isAnnouncing' | 'isHeld'> = () => ({}),
  ): readonly StoredRoot[] {
    return [...this.#held.values()].flatMap(({ anchor, standing, leavesUntil, givenUpAt, followedAt }) => {
      const { pem, learnedAt, settlesAt, fingerprint } = anchor
      if (standing === undefined) return []
      const times = { ...(givenUpAt !== undefined && { givenUpAt }), ...(followedAt !== undefined && { followedAt }) }
      return [{ pem, learnedAt, settlesAt, standing, leavesUntil, ...times, ...phase(fingerprint) }]
    })
  }

  /** Keeps a root while a leaf under it, valid until `notAfter`, is in use or waits; dispose it when the leaf goes. */
  lease(fingerprint: string, notAfter: number): Disposable {
    const held = this.#held.get(fingerprint)
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
    const newestInUse = this.#newestInUse()
    const removed: TrustAnchor[] = []
    for (const held of this.#held.values()) {
      const { anchor } = held
      if (this.#held.size === 1) break
      const isUnneeded = !isHeld(anchor.fingerprint) && this.#unneededAt(held, newestInUse) <= now
      // A leaf under an expired root has expired with it.
      if (!isUnneeded && anchor.notAfter > now) continue
      this.#drop(anchor)
      removed.push(anchor)
    }
    if (removed.length > 0) this.#rebuild()
    return removed
  }

  /** When {@link prune} has something to remove, expired roots aside; infinite if that is not known. */
  prunableAt(isHeld: IsHeld): number {
    const newestInUse = this.#newestInUse()
    const candidates = [...this.#held.values()].filter(({ anchor }) => !isHeld(anchor.fingerprint))
    if (this.#held.size === 1) return Number.POSITIVE_INFINITY
    return Math.min(...candidates.map(held => this.#unneededAt(held, newestInUse)))
  }

  /** When a root leaves, as things are; infinite while somebody lists it or a leaf needs it. */
  leavesAt(fingerprint: string): number {
    const held = this.#held.get(fingerprint)
    return held ? this.#unneededAt(held, this.#newestInUse()) : Number.POSITIVE_INFINITY
  }

  #unneededAt({ anchor, standing, isConfigured, ...held }: Held, newestInUse: number): number {
    if (held.leases > 0 || isConfigured) return Number.POSITIVE_INFINITY
    if (standing === 'given-up') return (held.givenUpAt ?? NO_OVERLAP) + this.#overlapMs
    return standing === 'inferred' && anchor.learnedAt < newestInUse ? held.leavesUntil : Number.POSITIVE_INFINITY
  }

  #newestInUse(): number {
    return Math.max(...[...this.#held.values()].map(({ leases, anchor }) => (leases > 0 ? anchor.learnedAt : 0)))
  }

  /** Only a root that comes after others of the CA can meet peers that do not know it. */
  #settlesAt(now: number): number {
    return this.hasNoneOfTheCA ? now : now + this.#settleMs
  }

  #add(
    roots: readonly Root[],
    { settlesAt, ...how }: AddOptions & { readonly settlesAt: number },
    origin: Pick<Held, 'standing' | 'isConfigured'>,
  ): Pick<Learned, 'added' | 'rejected'> {
    const added: TrustAnchor[] = []
    const rejected: string[] = []
    // Later than all others, so that their order is known even where the clock was set back.
    const learnedAt = Math.max(how.now, ...[...this.#held.values()].map(({ anchor }) => anchor.learnedAt + 1))
    for (const root of roots) {
      if (!this.#makeRoom(root, how)) {
        rejected.push(`${nameOf(root.certificate)} has no room beside the ${this.#held.size} that are trusted`)
        continue
      }
      const anchor = { ...root, learnedAt, settlesAt }
      this.#hold({ anchor, ...origin, leases: 0, leavesUntil: 0 })
      added.push(anchor)
    }
    if (added.length > 0) this.#rebuild()
    return { added, rejected }
  }

  /**
   * A root gives way that is not in use and has expired, or that the CA's whole list no longer has and no operator holds, the
   * longest known first. Nothing else can evict a root: who could do so would choose what is trusted.
   */
  #makeRoom(root: Root, { now, isWhole, isHeld = () => false }: AddOptions): boolean {
    const fits = () => this.#held.size < MAX_ROOTS && this.#length + root.pem.length <= this.#maxLength
    if (!fits()) {
      for (const { anchor, leases } of this.#held.values())
        if (leases === 0 && anchor.notAfter <= now) this.#drop(anchor)
      for (const { anchor, leases, standing, isConfigured } of this.#held.values()) {
        if (fits() || !isWhole) break
        const isNeeded = leases > 0 || isConfigured || isHeld(anchor.fingerprint)
        if (standing === 'given-up' && !isNeeded) this.#drop(anchor)
      }
      this.#rebuild()
    }
    return fits() && (this.#budget?.take(root) ?? true)
  }

  #hold(held: Held): void {
    const { fingerprint, pem } = held.anchor
    if (this.#held.has(fingerprint)) return
    this.#held.set(fingerprint, held)
    this.#length += pem.length
  }

  #drop(anchor: TrustAnchor): void {
    if (!this.#held.delete(anchor.fingerprint)) return
    this.#length -= anchor.pem.length
    this.#budget?.release(anchor)
  }

  #giveUpAllBut(listed: ReadonlySet<string>, now: number): string[] {
    const givenUp: string[] = []
    for (const [fingerprint, held] of this.#held) {
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

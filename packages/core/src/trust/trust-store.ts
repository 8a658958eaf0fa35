/**
 * The trust bundles, one per trust domain, fed by the operator's lists, the CA's own list and the roots that come with
 * certificates, and those of single identities.
 */

import { type CAClient, CAError, type IssuedCertificate } from '../contract/ca-client.ts'
import type { RootSource } from '../contract/root-source.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Store } from '../contract/store.ts'
import type { Root, StoredRoot, TrustAnchor } from '../contract/trust-anchor.ts'
import type { Receipts } from '../identity/receipts.ts'
import type { AllBundlesSecret, TrustBundleSecret } from '../identity/secret-item.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { RetryPolicy } from '../time/backoff.ts'
import type { Clock } from '../time/clock.ts'
import { allBundlesSecret } from './all-bundles.ts'
import { BundleListeners, type Listener } from './bundle-listeners.ts'
import type { OnCertificate } from './bundle-receipts.ts'
import { CARootList } from './ca-root-list.ts'
import { ConfiguredRoots } from './configured-roots.ts'
import type { IsHeld } from './held-roots.ts'
import { OwnRoots, unionOf } from './own-roots.ts'
import { RevocationLists } from './revocation.ts'
import { type ReadRoots, RootReader, summarize } from './root-reader.ts'
import { RootRemoval } from './root-removal.ts'
import { RootRotations } from './root-rotations.ts'
import { RotationControl } from './rotation-control.ts'
import { type Learned, TrustBundle } from './trust-bundle.ts'

/** The most trust domains of which roots are held. */
const MAX_TRUST_DOMAINS = 100

export interface TrustStoreOptions {
  readonly ca: CAClient
  readonly clock: Clock
  readonly random: () => number
  readonly trustDomain: string
  readonly settleMs: number
  /** Of roots that count for one identity. */
  readonly ownSettleMs: number
  /** How often a CA without `subscribe` is asked for its roots. */
  readonly pollMs: number
  readonly ackWaitMs: number
  readonly overlapMs: number
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  /** The lists of the operator. */
  readonly rootSources: readonly RootSource[]
  /** Revocation lists, one source for each trust domain that has some. */
  readonly crlSources: readonly RootSource[]
  /** Has the roots of the trust domain from the previous process, and gets them for the next. */
  readonly store?: Store | undefined
  readonly record: (name: string, event: SecretEvent) => void
  /** Called when the CA named roots, or the CA or the operator lists some no longer: leaves under those should be replaced. */
  readonly onRootsMoved: (bundle: TrustBundle, learned: Pick<Learned, 'added' | 'givenUp'>) => void
  /** Called when the roots of a bundle have changed, with the new ones in force. */
  readonly onPublished: (bundle: TrustBundle) => void
  /** Called when a client has accepted a certificate, or rejected it for `reason`. */
  readonly onCertificate: OnCertificate
  /** Called when leaves under a root that was announced may be served. */
  readonly onTrusted: (bundle: TrustBundle, fingerprint: string) => void
}

/** The roots that came with an answer. None is trusted before the answer is accepted. */
export interface OfferedRoots extends Pick<ReadRoots, 'roots' | 'rejected' | 'isWhole'> {
  readonly identity: SpiffeId
  readonly isOwn: boolean
}

/** A root that is trusted, and the bundle that holds it. */
export interface AcceptedRoot {
  readonly bundle: TrustBundle
  readonly anchor: TrustAnchor
}

export class TrustStore implements Disposable {
  readonly #options: TrustStoreOptions
  readonly #reader = new RootReader()
  readonly #bundles = new Map<string, TrustBundle>()
  readonly #own: OwnRoots
  readonly #listeners = new BundleListeners(this)
  readonly #configured: ConfiguredRoots
  /** The revocation lists of each trust domain that has had some. */
  readonly #lists = new Map<string, RevocationLists>()
  readonly #rotations: RootRotations
  readonly #removal: RootRemoval
  readonly #list: CARootList
  readonly control: RotationControl
  #firstAsked = Promise.resolve()

  constructor(options: TrustStoreOptions) {
    this.#options = options
    this.#own = new OwnRoots(options.ownSettleMs)
    this.#rotations = new RootRotations({
      clock: options.clock,
      ackWaitMs: options.ackWaitMs,
      record: options.record,
      onChange: bundle => this.#onPhase(bundle),
      onCertificate: options.onCertificate,
      onTrusted: (bundle, fingerprint) => options.onTrusted(bundle, fingerprint),
    })
    this.#configured = new ConfiguredRoots({
      clock: options.clock,
      reader: this.#reader,
      record: options.record,
      onChange: (trustDomain, roots) => this.#configure(trustDomain, roots),
    })
    this.#removal = new RootRemoval({
      clock: options.clock,
      settleMs: ({ owner }) => (owner ? options.ownSettleMs : options.settleMs),
      isHeld: (bundle, fingerprint) => this.#rotations.isHeld(bundle, fingerprint),
      onRemoved: (bundle, removed) => {
        this.#publish(bundle)
        this.#rotations.removed(bundle, removed)
      },
    })
    this.#list = new CARootList({
      ...options,
      reader: this.#reader,
      onListed: read => this.#learn(options.trustDomain, read, { listed: true, complete: read.isWhole }),
    })
    this.control = new RotationControl({
      clock: options.clock,
      bundles: this.#bundles,
      rotations: this.#rotations,
      onDropped: (bundle, fingerprint) => {
        options.onRootsMoved(bundle, { added: [], givenUp: [fingerprint] })
        this.#onPhase(bundle)
      },
    })
  }

  /** Takes up the stored roots and those that the operator lists, then asks the CA. Call once, before anything else. */
  start(): void {
    const { store, rootSources, crlSources } = this.#options
    this.useCrlSources(crlSources)
    if (store) this.#restore(store)
    this.#firstAsked =
      rootSources.length === 0 ? this.refresh() : this.#configured.use(rootSources).then(() => this.refresh())
  }

  /** Replaces what the operator lists. Resolves when the lists known by then are in force. */
  useRootSources(sources: readonly RootSource[]): Promise<void> {
    return this.#configured.use(sources)
  }

  /** Replaces the revocation lists; a trust domain without a source has none. */
  useCrlSources(sources: readonly RootSource[]): void {
    const wanted = new Map(sources.map(source => [source.trustDomain, source]))
    for (const trustDomain of new Set([...this.#lists.keys(), ...wanted.keys()]))
      this.#listsOf(trustDomain).use(wanted.get(trustDomain))
  }

  /** Whether the bundle of a trust domain is held, or waited for. */
  knows(trustDomain: string): boolean {
    return this.#bundles.has(trustDomain) || this.#configured.has(trustDomain)
  }

  /** Where a server reports which of its streams have which bundle. */
  get receipts(): Receipts {
    return this.#rotations.receipts
  }

  /** Whether leaves of `identity` under this root may be served: every peer is to know it first. */
  mayServe(identity: SpiffeId, fingerprint: string): boolean {
    const bundle = this.#bundlesOf(identity).find(each => each.anchor(fingerprint))
    return !bundle || this.#rotations.isTrusted(bundle, fingerprint)
  }

  /** A leaf under this root is served: those under older roots follow. `false` if they have begun to already. */
  follow(bundle: TrustBundle, fingerprint: string): boolean {
    if (!bundle.follow(fingerprint, this.#options.clock.now())) return false
    this.#putRoots(bundle)
    return true
  }

  /** Resolves when the CA has listed its roots for the first time, or has failed to, or has none. */
  get firstAsked(): Promise<void> {
    return this.#firstAsked
  }

  /** The agent's own. */
  get trustDomain(): string {
    return this.#options.trustDomain
  }

  bundle(trustDomain: string): TrustBundle | undefined {
    return this.#bundles.get(trustDomain)
  }

  bundles(): Iterable<TrustBundle> {
    return this.#bundles.values()
  }

  ownBundles(): Iterable<readonly [SpiffeId, TrustBundle]> {
    return this.#own.entries()
  }

  ownBundle(identity: SpiffeId): TrustBundle | undefined {
    return this.#own.bundle(identity)
  }

  /** The roots that are trusted in a trust domain, or with `identity` by that identity, which may have its own roots. */
  current(trustDomain: string, identity?: SpiffeId): TrustBundleSecret | undefined {
    return unionOf(identity && this.#own.bundle(identity), this.#bundles.get(trustDomain))
  }

  /** The bundles of all trust domains, that of its own as `identity` sees it. */
  all(identity?: SpiffeId): AllBundlesSecret | undefined {
    const { trustDomain } = this.#options
    const bundles = Array.from(new Set([trustDomain, ...this.#bundles.keys()])).flatMap(each => {
      const isOwn = identity !== undefined && trustDomainOf(identity) === each
      const bundle = this.current(each, isOwn ? identity : undefined)
      return bundle ? [{ trustDomain: each, bundle }] : []
    })
    return allBundlesSecret(trustDomain, bundles)
  }

  /** The trust domains whose bundle is held or waited for, the agent's own first. */
  trustDomains(): Iterable<string> {
    return new Set([this.#options.trustDomain, ...this.#bundles.keys(), ...this.#configured.trustDomains()])
  }

  /** Calls `listener` with each new version of {@link all}. */
  subscribeAll(identity: SpiffeId | undefined, listener: Listener<AllBundlesSecret>): Disposable {
    return this.#listeners.addForAll(identity, listener)
  }

  /** Calls `listener` with each new version of {@link current}. */
  subscribe(trustDomain: string, identity: SpiffeId | undefined, listener: Listener): Disposable {
    return this.#listeners.add(trustDomain, identity, listener)
  }

  /** Reads the roots that came with an answer for `identity`; they are not trusted yet. */
  async readOffered(
    identity: SpiffeId,
    { roots = [], rootsFor }: Pick<IssuedCertificate, 'roots' | 'rootsFor'>,
  ): Promise<OfferedRoots> {
    const read = await this.#reader.read(roots, this.#options.clock.now())
    return { ...read, identity, isOwn: rootsFor === 'identity' }
  }

  /** The roots that the chain of an answer can end under: those that are trusted, and those that came with it. */
  anchorsFor({ identity, roots }: Pick<OfferedRoots, 'identity' | 'roots'>): readonly Root[] {
    const known = this.#bundlesOf(identity).flatMap(bundle => bundle.anchors())
    return [...new Map([...known, ...roots].map(root => [root.fingerprint, root])).values()]
  }

  /**
   * Takes in the roots of an answer that has passed every check, with a chain that ends under `rootFingerprint`, and gives
   * that one in its bundle. All of them are taken while there is room, since the list is old ∪ new during a rotation.
   * Throws a {@link CAError} if there is no place for the one that the chain needs.
   */
  accept({ identity, isOwn, roots, ...read }: OfferedRoots, rootFingerprint: string): AcceptedRoot {
    const isNeeded = ({ fingerprint }: Root) => fingerprint === rootFingerprint
    const offered = { ...read, roots: [...roots.filter(isNeeded), ...roots.filter(root => !isNeeded(root))] }
    if (isOwn) this.#learnOwn(identity, offered)
    else if (offered.roots.length > 0 || read.rejected.length > 0)
      this.#learn(trustDomainOf(identity), offered, { listed: false, complete: false })
    for (const bundle of this.#bundlesOf(identity)) {
      const anchor = bundle.anchor(rootFingerprint)
      if (anchor) return { bundle, anchor }
    }
    throw new CAError(
      'bad-response',
      `The root of ${identity} is not trusted: there is no room for it beside those that are, or it was removed meanwhile. Remove roots that are not needed at the CA, then restart.`,
    )
  }

  /** The identity is no longer held: its own roots go with it. */
  forgetOwn(identity: SpiffeId): void {
    const bundle = this.#own.forget(identity)
    if (!bundle) return
    this.#release(bundle)
    this.#listeners.notifyOwner(identity)
  }

  /** See {@link CARootList.refresh}. */
  refresh(): Promise<void> {
    return this.#list.refresh()
  }

  /** See {@link CARootList.refreshAgain}. */
  refreshAgain(): Promise<void> {
    return this.#list.refreshAgain()
  }

  /** See {@link RootRemoval.schedule}. */
  schedulePrune(bundle: TrustBundle): void {
    this.#removal.schedule(bundle)
  }

  [Symbol.dispose](): void {
    this.#list[Symbol.dispose]()
    this.#configured[Symbol.dispose]()
    for (const lists of this.#lists.values()) lists[Symbol.dispose]()
    this.#rotations[Symbol.dispose]()
    this.#removal[Symbol.dispose]()
    this.#listeners[Symbol.dispose]()
  }

  #restore({ roots }: Store): void {
    const { trustDomain, settleMs, overlapMs, clock, ca } = this.#options
    // No list will ever give up what another CA had listed.
    const taken = ca.trustBundle ? roots : roots.map(root => ({ ...root, standing: withoutList(root.standing) }))
    const bundle = new TrustBundle(trustDomain, settleMs, { overlapMs, lists: this.#listsOf(trustDomain) })
    for (const reason of bundle.restore(taken, this.#reader, clock.now()))
      this.#options.record(`spiffe://${trustDomain}`, { kind: 'not-restored', reason })
    if (!bundle.secret) return
    this.#bundles.set(trustDomain, bundle)
    this.#publish(bundle)
    for (const stored of taken.filter(({ isAnnouncing, isHeld }) => isAnnouncing || isHeld)) {
      const root = this.#reader.readOne(stored.pem)
      const anchor = typeof root === 'string' ? undefined : bundle.anchor(root.fingerprint)
      if (anchor) this.#rotations.restore(bundle, anchor, stored, clock.now() + settleMs)
    }
    this.schedulePrune(bundle)
  }

  #onPhase(bundle: TrustBundle): void {
    this.#putRoots(bundle)
    this.schedulePrune(bundle)
  }

  /** The bundle is not used again. */
  #release(bundle: TrustBundle): void {
    this.#removal.forget(bundle)
    this.#rotations.forget(bundle)
  }

  #putRoots(bundle: TrustBundle): void {
    if (bundle !== this.#bundles.get(this.#options.trustDomain)) return
    const phase = (fingerprint: string) => ({
      ...(this.#rotations.isAnnouncing(bundle, fingerprint) && { isAnnouncing: true }),
      ...(this.#rotations.isHeld(bundle, fingerprint) && { isHeld: true }),
    })
    this.#options.store?.putRoots(bundle.stored(phase))
  }

  #learn(
    trustDomain: string,
    read: Pick<ReadRoots, 'roots' | 'rejected'>,
    how: { readonly listed: boolean; readonly complete: boolean },
  ): void {
    const { clock, onRootsMoved, onTrusted } = this.#options
    const bundle = this.#bundles.get(trustDomain) ?? this.#newBundle(trustDomain)
    const isFirst = bundle?.hasNoneOfTheCA ?? true
    const learned = bundle?.learn(read.roots, { ...how, now: clock.now(), isHeld: this.#isHeldIn(bundle) }) ?? NO_PLACE
    this.#recordRejected(`spiffe://${trustDomain}`, [...read.rejected, ...learned.rejected])
    if (!bundle) return
    if (learned.added.length > 0) this.#hold(bundle, isFirst ? [] : learned.added)
    if (learned.added.length > 0 || learned.adopted.length > 0 || learned.givenUp.length > 0) {
      this.#putRoots(bundle)
      for (const { fingerprint } of learned.adopted)
        if (!isFirst && this.#rotations.isTrusted(bundle, fingerprint)) onTrusted(bundle, fingerprint)
      onRootsMoved(bundle, { ...learned, added: [...learned.added, ...learned.adopted] })
      this.schedulePrune(bundle)
    }
  }

  /** `roots`: all that the operator lists for a trust domain; leaves do not follow them before the CA names one. */
  #configure(trustDomain: string, roots: readonly Root[] | undefined): void {
    const { clock, record, onRootsMoved } = this.#options
    const bundle = this.#bundles.get(trustDomain) ?? this.#newBundle(trustDomain)
    const isFirst = bundle?.hasNoneOfTheCA ?? true
    const learned = bundle?.configure(roots ?? [], clock.now(), this.#isHeldIn(bundle)) ?? NO_PLACE
    const { length: count } = learned.rejected
    if (count > 0)
      record(`spiffe://${trustDomain}`, {
        kind: 'roots-rejected',
        source: 'configuration',
        count,
        reason: summarize(learned.rejected),
      })
    if (!bundle) return
    if (!roots && bundle.isUnneeded) {
      this.#forget(bundle)
      return
    }
    if (learned.added.length > 0) this.#hold(bundle, isFirst ? [] : learned.added)
    if (learned.givenUp.length > 0) {
      onRootsMoved(bundle, { added: [], givenUp: learned.givenUp })
      this.schedulePrune(bundle)
    }
  }

  #listsOf(trustDomain: string): RevocationLists {
    const present = this.#lists.get(trustDomain)
    if (present) return present
    const { clock, record } = this.#options
    const lists = new RevocationLists({
      clock,
      record,
      name: `spiffe://${trustDomain}`,
      onChange: () => this.#onListsChanged(trustDomain),
    })
    this.#lists.set(trustDomain, lists)
    return lists
  }

  #onListsChanged(trustDomain: string): void {
    const bundle = this.#bundles.get(trustDomain)
    if (!bundle) return
    bundle.refresh()
    this.#publish(bundle)
  }

  /** `announced`: its roots that clients are to learn before leaves under them are served. */
  #hold(bundle: TrustBundle, announced: readonly TrustAnchor[]): void {
    this.#bundles.set(bundle.trustDomain, bundle)
    this.#rotations.announce(bundle, announced)
    this.#publish(bundle)
  }

  /** Nobody lists roots of the trust domain any longer, which is not the agent's own. */
  #forget(bundle: TrustBundle): void {
    const { trustDomain } = bundle
    if (!this.#bundles.delete(trustDomain)) return
    this.#release(bundle)
    bundle.clear()
    this.#listeners.notifyTrustDomain(trustDomain)
  }

  #newBundle(trustDomain: string): TrustBundle | undefined {
    // The agent's own always has its place.
    const others = this.#bundles.size - (this.#bundles.has(this.#options.trustDomain) ? 1 : 0)
    if (trustDomain !== this.#options.trustDomain && others >= MAX_TRUST_DOMAINS - 1) return undefined
    const { settleMs, overlapMs } = this.#options
    return new TrustBundle(trustDomain, settleMs, { overlapMs, lists: this.#listsOf(trustDomain) })
  }

  /** The list is whole: the file that it is from says which roots there are. */
  #learnOwn(identity: SpiffeId, { roots, rejected, isWhole }: Omit<OfferedRoots, 'identity' | 'isOwn'>): void {
    const bundle = this.#own.open(identity)
    const isFirst = bundle.hasNoneOfTheCA
    const how = { listed: true, complete: isWhole, now: this.#options.clock.now(), isHeld: this.#isHeldIn(bundle) }
    const learned = bundle.learn(roots, how)
    this.#recordRejected(identity, [...rejected, ...learned.rejected])
    if (!isFirst) this.#rotations.announce(bundle, learned.added)
    if (learned.added.length > 0) this.#publish(bundle)
    if (learned.added.length > 0 || learned.givenUp.length > 0) this.schedulePrune(bundle)
  }

  #isHeldIn(bundle: TrustBundle): IsHeld {
    return fingerprint => this.#rotations.isHeld(bundle, fingerprint)
  }

  #recordRejected(name: string, reasons: readonly string[]): void {
    if (reasons.length === 0) return
    const message = `Roots were left out: ${summarize(reasons)}`
    this.#options.record(name, { kind: 'ca-error', code: 'bad-response', message })
  }

  /** The bundles that an identity trusts: its own, then that of its trust domain. */
  #bundlesOf(identity: SpiffeId): readonly TrustBundle[] {
    const bundles = [this.#own.bundle(identity), this.#bundles.get(trustDomainOf(identity))]
    return bundles.filter(bundle => bundle !== undefined)
  }

  #publish(bundle: TrustBundle): void {
    const { secret, name, trustDomain, owner } = bundle
    if (!secret) return
    this.#removal.planExpiry(bundle)
    this.#options.record(name, {
      kind: 'roots-changed',
      version: secret.version,
      roots: bundle.anchors().length,
    })
    if (!owner) this.#lists.get(trustDomain)?.report(bundle.anchors())
    if (owner) this.#listeners.notifyOwner(owner)
    else this.#listeners.notifyTrustDomain(trustDomain)
    this.#options.onPublished(bundle)
  }
}

const NO_PLACE: Learned = {
  added: [],
  adopted: [],
  givenUp: [],
  rejected: [`roots of ${MAX_TRUST_DOMAINS} trust domains are held already`],
}

function withoutList(standing: StoredRoot['standing']): StoredRoot['standing'] {
  return standing === 'listed' ? 'inferred' : standing
}

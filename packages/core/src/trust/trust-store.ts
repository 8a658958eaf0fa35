/** The roots that are trusted: those that the CA lists, that came with answers which passed every check, that the operator lists. */

import { type CAClient, CAError, type IssuedCertificate } from '../contract/ca-client.ts'
import type { RootSource } from '../contract/root-source.ts'
import type { Root, StoredRoot, TrustAnchor } from '../contract/trust-anchor.ts'
import type { Receipts } from '../identity/receipts.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { RetryPolicy } from '../time/backoff.ts'
import type { CertificateVerifier, VerifiedChain } from '../x509/ca-answer-verifier.ts'
import { BundleTable } from './bundle-table.ts'
import { CARootList } from './ca-root-list.ts'
import { ConfiguredRoots } from './configured-roots.ts'
import { FederatedRoots } from './federated-roots.ts'
import { RevocationTable } from './revocation.ts'
import type { LeafJudge } from './revoked-chain.ts'
import { RootIntake, type RootIntakeOptions } from './root-intake.ts'
import { RootLifecycle, type RootLifecycleOptions } from './root-lifecycle.ts'
import { type ReadRoots, RootReader } from './root-reader.ts'
import { RotationControl } from './rotation-control.ts'
import type { TrustBundle } from './trust-bundle.ts'

export interface TrustStoreOptions
  extends Omit<RootLifecycleOptions, 'bundles' | 'revocation'>,
    Pick<RootIntakeOptions, 'revokesMissingRoots'> {
  readonly ca: Omit<CAClient, 'issue'>
  readonly verifier: CertificateVerifier
  readonly random: () => number
  /** How often a CA without `subscribe` is asked for its roots. */
  readonly pollMs: number
  readonly overlapMs: number
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  /** The lists of the operator. */
  readonly rootSources: readonly RootSource[]
  /** Revocation lists, one source for each trust domain that has some. */
  readonly crlSources: readonly RootSource[]
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
  readonly bundles: BundleTable
  readonly control: RotationControl
  readonly #options: TrustStoreOptions
  readonly #reader: RootReader
  readonly #revocation: RevocationTable
  readonly #lifecycle: RootLifecycle
  readonly #intake: RootIntake
  readonly #configured: ConfiguredRoots
  readonly #list: CARootList
  readonly #federated: FederatedRoots
  /** Of the operator. */
  #rootSources: readonly RootSource[] = []
  #firstAsked = Promise.resolve()

  constructor(options: TrustStoreOptions) {
    const { clock, record, trustDomain } = options
    this.#options = options
    this.#reader = new RootReader(options.verifier)
    this.#revocation = new RevocationTable({ clock, record, onChange: changed => this.#onListsChanged(changed) })
    this.bundles = new BundleTable({ ...options, listsOf: each => this.#revocation.of(each) })
    const parts = { bundles: this.bundles, reader: this.#reader, revocation: this.#revocation }
    this.#lifecycle = new RootLifecycle({ ...options, ...parts })
    this.#intake = new RootIntake({ ...options, ...parts, lifecycle: this.#lifecycle })
    this.#configured = new ConfiguredRoots({
      clock,
      reader: this.#reader,
      record,
      onChange: (configured, roots) => this.#intake.configure(configured, roots),
    })
    this.#federated = new FederatedRoots(trustDomain)
    this.#list = new CARootList({
      ...options,
      reader: this.#reader,
      onListed: read => this.#intake.learn(trustDomain, read, { kind: 'list' }),
      onFederated: async federated => {
        if (this.#federated.take(federated)) await this.useRootSources(this.#rootSources)
      },
    })
    this.control = new RotationControl({
      clock,
      bundles: this.bundles.byTrustDomain,
      rotations: this.#lifecycle.rotations,
      onDropped: (bundle, fingerprint) => {
        const moves = { added: [], givenUp: [], revoked: [fingerprint] }
        options.dispatch({ kind: 'rootsMoved', bundle, moves })
        this.#lifecycle.onPhase(bundle)
      },
    })
  }

  /** Takes up the stored roots and those that the operator lists, then asks the CA. Call once, before anything else. */
  start(): void {
    const { ca, store, rootSources, crlSources } = this.#options
    this.useCrlSources(crlSources)
    // No list will ever give up what another CA had listed.
    if (store) this.#intake.restore(ca.trustBundle ? store.roots : store.roots.map(withoutList))
    this.#firstAsked =
      rootSources.length === 0 ? this.refresh() : this.useRootSources(rootSources).then(() => this.refresh())
  }

  /** Replaces what the operator lists. Resolves when the lists known by then are in force. */
  useRootSources(sources: readonly RootSource[]): Promise<void> {
    this.#rootSources = sources
    return this.#configured.use([...sources, ...this.#federated.sources])
  }

  /** Replaces the revocation lists; a trust domain without a source has none. */
  useCrlSources(sources: readonly RootSource[]): void {
    this.#revocation.use(sources)
  }

  /** The agent's own. */
  get trustDomain(): string {
    return this.#options.trustDomain
  }

  /** Whether the bundle of a trust domain is held, or waited for. */
  knows(trustDomain: string): boolean {
    return this.bundles.get(trustDomain) !== undefined || this.#configured.has(trustDomain)
  }

  /** The trust domains whose bundle is held or waited for, the agent's own first. */
  trustDomains(): Iterable<string> {
    return new Set([this.trustDomain, ...this.bundles.byTrustDomain.keys(), ...this.#configured.trustDomains()])
  }

  /** Where a server reports which of its streams have which bundle. */
  get receipts(): Receipts {
    return this.#lifecycle.rotations.receipts
  }

  /** Whether leaves of `identity` under this root may be served: every peer is to know it first. */
  mayServe(identity: SpiffeId, fingerprint: string): boolean {
    const bundle = this.bundles.of(identity).find(each => each.anchor(fingerprint))
    return !bundle || this.#lifecycle.rotations.isTrusted(bundle, fingerprint)
  }

  /** A leaf under this root is served: those under older roots follow. `false` if they have begun to already. */
  follow(bundle: TrustBundle, fingerprint: string): boolean {
    if (!bundle.follow(fingerprint, this.#options.clock.now())) return false
    this.#lifecycle.putRoots(bundle)
    return true
  }

  /** Resolves when the CA has listed its roots for the first time, or has failed to, or has none. */
  get firstAsked(): Promise<void> {
    return this.#firstAsked
  }

  /** As {@link readOffered}, at once, if they are the roots that came with the answer before. */
  knownOffered(
    identity: SpiffeId,
    { roots = [], rootsFor }: Pick<IssuedCertificate, 'roots' | 'rootsFor'>,
  ): OfferedRoots | undefined {
    const read = this.#reader.sameAsLast(roots, this.#options.clock.now())
    return read && { ...read, identity, isOwn: rootsFor === 'identity' }
  }

  /** Reads the roots that came with an answer for `identity`; they are not trusted yet. */
  async readOffered(
    identity: SpiffeId,
    { roots = [], rootsFor }: Pick<IssuedCertificate, 'roots' | 'rootsFor'>,
  ): Promise<OfferedRoots> {
    const read = await this.#reader.read(roots, this.#options.clock.now())
    return { ...read, identity, isOwn: rootsFor === 'identity' }
  }

  /** Which leaves of `identity` with this chain above them are revoked, by the lists of its trust domain. */
  revocations(identity: SpiffeId, chainPem: string, root: Root): LeafJudge {
    return this.#revocation.of(trustDomainOf(identity)).judgeOf(chainPem, root)
  }

  /** Why the chain of an answer is revoked; `undefined` if it is not. */
  revocationOf(offered: OfferedRoots, { chainPem, serialNumber, rootFingerprint }: VerifiedChain): string | undefined {
    const root = this.anchorsFor(offered).find(({ fingerprint }) => fingerprint === rootFingerprint)
    return root && this.revocations(offered.identity, chainPem, root)(serialNumber)
  }

  /** The roots that the chain of an answer can end under: those that are trusted, and those that came with it. */
  anchorsFor({ identity, roots }: Pick<OfferedRoots, 'identity' | 'roots'>): readonly Root[] {
    const bundles = this.bundles.of(identity)
    const [bundle] = bundles
    if (bundle && bundles.length === 1 && roots.every(({ fingerprint }) => bundle.anchor(fingerprint)))
      return bundle.anchors()
    const known = bundles.flatMap(each => each.anchors())
    const usable = roots.filter(({ fingerprint }) => !bundles.some(each => each.isRevoked(fingerprint)))
    return [...new Map([...known, ...usable].map(root => [root.fingerprint, root])).values()]
  }

  /**
   * Takes in the roots of an answer that has passed every check, with a chain that ends under `rootFingerprint` and at
   * `notAfter`, and gives that one in its bundle. All are taken while there is room: during a rotation they are old ∪ new.
   * Throws a {@link CAError} if there is no place for the one that the chain needs.
   */
  accept(
    { identity, isOwn, roots, ...read }: OfferedRoots,
    { rootFingerprint, notAfter }: Pick<VerifiedChain, 'rootFingerprint' | 'notAfter'>,
  ): AcceptedRoot {
    const isNeeded = ({ fingerprint }: Root) => fingerprint === rootFingerprint
    const sorted = roots.length > 1 ? [...roots.filter(isNeeded), ...roots.filter(root => !isNeeded(root))] : roots
    const offered = { ...read, roots: sorted }
    if (isOwn) this.#intake.learnOwn(identity, offered)
    else if (offered.roots.length > 0 || read.rejected.length > 0)
      this.#intake.learn(trustDomainOf(identity), offered, { kind: 'answer', notAfter })
    for (const bundle of this.bundles.of(identity)) {
      const anchor = bundle.anchor(rootFingerprint)
      if (anchor) return { bundle, anchor }
    }
    const isRevoked = this.#revocation.of(trustDomainOf(identity)).revoked(roots).some(isNeeded)
    throw new CAError('bad-response', `The root of ${identity} is not trusted: ${isRevoked ? REVOKED : NO_ROOM}`)
  }

  /** The identity is no longer held: its own roots go with it. */
  forgetOwn(identity: SpiffeId): void {
    const bundle = this.bundles.forgetOwn(identity)
    if (!bundle) return
    this.#lifecycle.release(bundle)
    this.bundles.notify(bundle)
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
    this.#lifecycle.schedulePrune(bundle)
  }

  [Symbol.dispose](): void {
    this.#list[Symbol.dispose]()
    this.#configured[Symbol.dispose]()
    this.#revocation[Symbol.dispose]()
    this.#lifecycle[Symbol.dispose]()
    this.bundles[Symbol.dispose]()
  }

  #onListsChanged(trustDomain: string): void {
    const bundle = this.bundles.get(trustDomain)
    bundle?.refresh()
    if (bundle) {
      this.#lifecycle.publish(bundle)
      this.#intake.applyLists(bundle)
    }
    this.#options.dispatch({ kind: 'crlChanged', trustDomain })
  }
}

const REVOKED =
  'a revocation list of its issuer names it. Have the CA sign under another root, or take it off the list.'
const NO_ROOM =
  'there is no room for it beside those that are, or it was removed meanwhile. Drop those that nobody needs: livery trust drop.'

function withoutList(root: StoredRoot): StoredRoot {
  return root.standing === 'listed' ? { ...root, standing: 'inferred' } : root
}

/** The trust bundles, one per trust domain and some of single identities: who sees which. */

import type { Root } from '../contract/trust-anchor.ts'
import type { AllBundlesSecret, TrustBundleSecret } from '../secrets/secret-item.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { BundleRoots } from './bundle-roots.ts'
import { allBundlesSecret, bundleSecret } from './bundle-secret.ts'
import type { RevocationTable } from './revocation.ts'
import { RootBudget } from './root-budget.ts'
import type { RootTimes } from './settle-time.ts'
import { TrustBundle } from './trust-bundle.ts'

/** The most trust domains with roots. */
export const MAX_TRUST_DOMAINS = 100
/** All roots of one identity, in characters of PEM: they fit into its file in the store, and 100 folders do not use up the budget. */
const MAX_OWN_LENGTH = 131_072

export class BundleTable {
  readonly #trustDomain: string
  readonly #times: RootTimes
  readonly #crls: RevocationTable
  readonly #bundles = new Map<string, TrustBundle>()
  /** The roots that count for one identity only, as those in its folder do. */
  readonly #own = new Map<SpiffeId, TrustBundle>()
  readonly #ownBudget = new RootBudget()

  /** `trustDomain`: the agent's own. */
  constructor(trustDomain: string, times: RootTimes, crls: RevocationTable) {
    this.#trustDomain = trustDomain
    this.#times = times
    this.#crls = crls
  }

  /** The bundles that count for a whole trust domain. */
  get byTrustDomain(): ReadonlyMap<string, TrustBundle> {
    return this.#bundles
  }

  get(trustDomain: string): TrustBundle | undefined {
    return this.#bundles.get(trustDomain)
  }

  /** The roots that count for this identity only. */
  own(identity: SpiffeId): TrustBundle | undefined {
    return this.#own.get(identity)
  }

  /** The bundles that an identity trusts: its own, then its trust domain's. */
  of(identity: SpiffeId): readonly TrustBundle[] {
    const bundles = [this.#own.get(identity), this.#bundles.get(trustDomainOf(identity))]
    return bundles.filter(bundle => bundle !== undefined)
  }

  /** The bundles of trust domains, then the bundles of single identities. */
  values(): readonly TrustBundle[] {
    return [...this.#bundles.values(), ...this.#own.values()]
  }

  /**
   * The bundle of a trust domain, new if none is held: then {@link put} holds it. `undefined` if there is no room for one
   * more trust domain.
   */
  open(trustDomain: string): TrustBundle | undefined {
    const { settleMs, overlapMs } = this.#times
    const present = this.#bundles.get(trustDomain)
    if (present || !this.#hasRoomFor(trustDomain)) return present
    return new TrustBundle(trustDomain, settleMs, new BundleRoots(overlapMs), this.#crls.of(trustDomain))
  }

  put(bundle: TrustBundle): void {
    this.#bundles.set(bundle.trustDomain, bundle)
  }

  /** `false` if it is not held. */
  delete({ owner, trustDomain }: TrustBundle): boolean {
    return owner ? this.#own.delete(owner) : this.#bundles.delete(trustDomain)
  }

  /** The bundle of the identity, new if it has none. */
  openOwn(identity: SpiffeId): TrustBundle {
    const present = this.#own.get(identity)
    if (present) return present
    const { ownSettleMs, overlapMs } = this.#times
    const roots = new BundleRoots(overlapMs, MAX_OWN_LENGTH, this.#ownBudget)
    const bundle = new TrustBundle(trustDomainOf(identity), ownSettleMs, roots, undefined, identity)
    this.#own.set(identity, bundle)
    return bundle
  }

  /** The roots that are trusted in a trust domain, or with `identity` by that identity, which may have its own roots. */
  current(trustDomain: string, identity?: SpiffeId): TrustBundleSecret | undefined {
    return unionOf(identity && this.#own.get(identity), this.#bundles.get(trustDomain))
  }

  /** The bundles of all trust domains; its own trust domain's as `identity` sees it. */
  all(identity?: SpiffeId): AllBundlesSecret | undefined {
    const bundles = Array.from(new Set([this.#trustDomain, ...this.#bundles.keys()])).flatMap(each => {
      const isOwn = identity !== undefined && trustDomainOf(identity) === each
      const bundle = this.current(each, isOwn ? identity : undefined)
      return bundle ? [{ trustDomain: each, bundle }] : []
    })
    return allBundlesSecret(this.#trustDomain, bundles)
  }

  /** The bundle of a trust domain, by {@link TrustBundle.name}. */
  named(name: string): TrustBundle | undefined {
    return this.#bundles.get(name.slice('spiffe://'.length))
  }

  /** Whether clients are to learn a root of the bundle with this name. */
  isAnnouncing(name: string): boolean {
    return (
      this.named(name)
        ?.roots.values()
        .some(({ announcement }) => announcement !== undefined) ?? false
    )
  }

  /** The bundle that holds this root for an identity. */
  holderOf(identity: SpiffeId, fingerprint: string): TrustBundle | undefined {
    const own = this.#own.get(identity)
    if (own?.anchor(fingerprint)) return own
    const bundle = this.#bundles.get(trustDomainOf(identity))
    return bundle?.anchor(fingerprint) ? bundle : undefined
  }

  /** The roots that an answer's chain can end under: the trusted ones, and the offered ones. */
  anchorsFor(identity: SpiffeId, roots: readonly Root[]): readonly Root[] {
    const bundle = this.#bundles.get(trustDomainOf(identity))
    const hasAll = bundle && roots.every(({ fingerprint }) => bundle.anchor(fingerprint))
    if (hasAll && !this.#own.has(identity)) return bundle.anchors()
    const bundles = this.of(identity)
    const known = bundles.flatMap(each => each.anchors())
    const usable = roots.filter(({ fingerprint }) => !bundles.some(each => each.isRevoked(fingerprint)))
    return [...new Map([...known, ...usable].map(root => [root.fingerprint, root])).values()]
  }

  /** The agent's own trust domain always has room. */
  #hasRoomFor(trustDomain: string): boolean {
    const others = this.#bundles.size - (this.#bundles.has(this.#trustDomain) ? 1 : 0)
    return trustDomain === this.#trustDomain || others < MAX_TRUST_DOMAINS - 1
  }
}

/** The latest union with each, since thousands of identities have the same own roots. */
const unions = new WeakMap<
  TrustBundleSecret,
  { readonly other: TrustBundleSecret; readonly union: TrustBundleSecret }
>()

/** The roots that an identity trusts: its own and its trust domain's. */
export function unionOf(own: TrustBundle | undefined, domain: TrustBundle | undefined): TrustBundleSecret | undefined {
  if (!own?.secret || !domain?.secret) return own?.secret ?? domain?.secret
  const known = unions.get(own.secret)
  if (known?.other === domain.secret) return known.union
  const roots = [...own.anchors(), ...domain.anchors()]
  const union = bundleSecret(own.trustDomain, roots, domain.lists?.for(roots))
  unions.set(own.secret, { other: domain.secret, union })
  return union
}

/** The trust bundles, one per trust domain and some of single identities: who sees which. */

import type { Root } from '../contract/trust-anchor.ts'
import type { AllBundlesSecret, TrustBundleSecret } from '../secrets/secret-item.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { allBundlesSecret } from './all-bundles.ts'
import { BundleRoots } from './bundle-roots.ts'
import { OwnRoots, unionOf } from './own-roots.ts'
import type { RevocationTable } from './revocation.ts'
import type { OfferedRoots } from './root-reader.ts'
import type { RootTimes } from './settle-time.ts'
import { TrustBundle } from './trust-bundle.ts'

/** The most trust domains with roots. */
export const MAX_TRUST_DOMAINS = 100

export class BundleTable {
  readonly #trustDomain: string
  readonly #times: RootTimes
  readonly #crls: RevocationTable
  readonly #bundles = new Map<string, TrustBundle>()
  readonly #own: OwnRoots

  /** `trustDomain`: the agent's own. */
  constructor(trustDomain: string, times: RootTimes, crls: RevocationTable) {
    this.#trustDomain = trustDomain
    this.#times = times
    this.#crls = crls
    this.#own = new OwnRoots(times)
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
    return this.#own.bundle(identity)
  }

  /** The bundles that an identity trusts: its own, then its trust domain's. */
  of(identity: SpiffeId): readonly TrustBundle[] {
    const bundles = [this.#own.bundle(identity), this.#bundles.get(trustDomainOf(identity))]
    return bundles.filter(bundle => bundle !== undefined)
  }

  /** The bundles of trust domains, then the bundles of single identities. */
  values(): readonly TrustBundle[] {
    return [...this.#bundles.values(), ...this.#own.bundles()]
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
  delete({ trustDomain }: TrustBundle): boolean {
    return this.#bundles.delete(trustDomain)
  }

  /** The bundle of the identity, new if it has none. */
  openOwn(identity: SpiffeId): TrustBundle {
    return this.#own.open(identity)
  }

  forgetOwn(identity: SpiffeId): TrustBundle | undefined {
    return this.#own.forget(identity)
  }

  /** The roots that are trusted in a trust domain, or with `identity` by that identity, which may have its own roots. */
  current(trustDomain: string, identity?: SpiffeId): TrustBundleSecret | undefined {
    return unionOf(identity && this.#own.bundle(identity), this.#bundles.get(trustDomain))
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
        ?.roots()
        .some(({ announcement }) => announcement !== undefined) ?? false
    )
  }

  /** The bundle that holds this root for an identity. */
  holderOf(identity: SpiffeId, fingerprint: string): TrustBundle | undefined {
    const own = this.#own.bundle(identity)
    if (own?.anchor(fingerprint)) return own
    const bundle = this.#bundles.get(trustDomainOf(identity))
    return bundle?.anchor(fingerprint) ? bundle : undefined
  }

  /** The roots that an answer's chain can end under: the trusted ones, and the offered ones. */
  anchorsFor({ identity, roots }: Pick<OfferedRoots, 'identity' | 'roots'>): readonly Root[] {
    const bundle = this.#bundles.get(trustDomainOf(identity))
    const hasAll = bundle && roots.every(({ fingerprint }) => bundle.anchor(fingerprint))
    if (hasAll && !this.#own.bundle(identity)) return bundle.anchors()
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

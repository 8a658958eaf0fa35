/** Roots that count for one identity only, as those in its folder do: no other identity trusts them. */

import type { TrustBundleSecret } from '../secrets/secret-item.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { BundleRoots } from './bundle-roots.ts'
import { bundleSecret } from './bundle-secret.ts'
import { RootBudget } from './root-budget.ts'
import type { RootTimes } from './settle-time.ts'
import { TrustBundle } from './trust-bundle.ts'

/** All roots of one identity, in characters of PEM: they fit into its file in the store, and 100 folders do not use up the budget. */
const MAX_LENGTH = 131_072

export class OwnRoots {
  readonly #times: RootTimes
  readonly #bundles = new Map<SpiffeId, TrustBundle>()
  readonly #budget = new RootBudget()

  constructor(times: RootTimes) {
    this.#times = times
  }

  bundle(identity: SpiffeId): TrustBundle | undefined {
    return this.#bundles.get(identity)
  }

  bundles(): Iterable<TrustBundle> {
    return this.#bundles.values()
  }

  /** The bundle of the identity, new if it has none. */
  open(identity: SpiffeId): TrustBundle {
    const present = this.#bundles.get(identity)
    if (present) return present
    const { ownSettleMs, overlapMs } = this.#times
    const roots = new BundleRoots(overlapMs, MAX_LENGTH, this.#budget)
    const bundle = new TrustBundle(trustDomainOf(identity), ownSettleMs, roots, undefined, identity)
    this.#bundles.set(identity, bundle)
    return bundle
  }

  forget(identity: SpiffeId): TrustBundle | undefined {
    const bundle = this.#bundles.get(identity)
    bundle?.clear()
    this.#bundles.delete(identity)
    return bundle
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
  const union = bundleSecret(own.trustDomain, roots, domain.revocationOf(roots))
  unions.set(own.secret, { other: domain.secret, union })
  return union
}

/** The listeners of trust bundles: which ones a change concerns, and the version that each gets. */

import type { AllBundlesSecret, TrustBundleSecret } from '../secrets/secret-item.ts'
import { notify, type Subscribers, Subscription } from '../secrets/subscribers.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { TrustBundle } from './trust-bundle.ts'

export type Listener<S = TrustBundleSecret> = (secret: S | undefined) => void

/** The bundles as they are now. */
export interface BundleViews {
  /** The roots of a trust domain, as `identity` sees them. */
  current(trustDomain: string, identity?: SpiffeId): TrustBundleSecret | undefined
  /** The roots of all trust domains. */
  all(identity?: SpiffeId): AllBundlesSecret | undefined
}

export class BundleListeners implements Disposable {
  readonly #views: BundleViews
  readonly #ofDomains: Subscribers<string, Listener> = new Map()
  /** Keyed by the identity whose view they get. */
  readonly #ofIdentities: Subscribers<SpiffeId, Listener> = new Map()
  readonly #ofAll: Subscribers<SpiffeId | undefined, Listener<AllBundlesSecret>> = new Map()

  constructor(views: BundleViews) {
    this.#views = views
  }

  add(trustDomain: string, identity: SpiffeId | undefined, listener: Listener): Disposable {
    return identity
      ? new Subscription(this.#ofIdentities, identity, listener)
      : new Subscription(this.#ofDomains, trustDomain, listener)
  }

  addForAll(identity: SpiffeId | undefined, listener: Listener<AllBundlesSecret>): Disposable {
    return new Subscription(this.#ofAll, identity, listener)
  }

  /** The roots of a bundle changed, or it is no longer held. */
  notify({ owner, trustDomain }: Pick<TrustBundle, 'owner' | 'trustDomain'>): void {
    if (owner) {
      notify(this.#ofIdentities.get(owner), this.#views.current(trustDomain, owner))
      notify(this.#ofAll.get(owner), this.#views.all(owner))
      return
    }
    notify(this.#ofDomains.get(trustDomain), this.#views.current(trustDomain))
    for (const [identity, listeners] of this.#ofIdentities)
      if (trustDomainOf(identity) === trustDomain) notify(listeners, this.#views.current(trustDomain, identity))
    for (const [identity, listeners] of this.#ofAll) notify(listeners, this.#views.all(identity))
  }

  [Symbol.dispose](): void {
    this.#ofDomains.clear()
    this.#ofIdentities.clear()
    this.#ofAll.clear()
  }
}

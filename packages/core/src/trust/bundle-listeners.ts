/** The listeners of trust bundles: which ones a change concerns, and the version that each gets. */

import { type Listener, notify, type Subscribers, Subscription } from '../secrets/watch.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { BundleTable } from './bundle-table.ts'
import type { TrustBundle } from './trust-bundle.ts'

export class BundleListeners implements Disposable {
  readonly #bundles: BundleTable
  readonly #ofDomains: Subscribers<string> = new Map()
  /** Keyed by the identity whose view they get. */
  readonly #ofIdentities: Subscribers<SpiffeId> = new Map()
  readonly #ofAll: Subscribers<SpiffeId | undefined> = new Map()

  constructor(bundles: BundleTable) {
    this.#bundles = bundles
  }

  add(trustDomain: string, identity: SpiffeId | undefined, listener: Listener): Disposable {
    return identity
      ? new Subscription(this.#ofIdentities, identity, listener)
      : new Subscription(this.#ofDomains, trustDomain, listener)
  }

  addForAll(identity: SpiffeId | undefined, listener: Listener): Disposable {
    return new Subscription(this.#ofAll, identity, listener)
  }

  /** The roots of a bundle changed, or it is no longer held. */
  notify({ owner, trustDomain }: Pick<TrustBundle, 'owner' | 'trustDomain'>): void {
    if (owner) {
      notify(this.#ofIdentities.get(owner), this.#bundles.current(trustDomain, owner))
      notify(this.#ofAll.get(owner), this.#bundles.all(owner))
      return
    }
    notify(this.#ofDomains.get(trustDomain), this.#bundles.current(trustDomain))
    for (const [identity, listeners] of this.#ofIdentities)
      if (trustDomainOf(identity) === trustDomain) notify(listeners, this.#bundles.current(trustDomain, identity))
    for (const [identity, listeners] of this.#ofAll) notify(listeners, this.#bundles.all(identity))
  }

  [Symbol.dispose](): void {
    this.#ofDomains.clear()
    this.#ofIdentities.clear()
    this.#ofAll.clear()
  }
}

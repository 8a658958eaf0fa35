/** The life of a root in its bundle: it is announced, published and stored, and removed in the end. */

import type { SecretEvent } from '../contract/secret-event.ts'
import type { Store } from '../contract/store.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { Clock } from '../time/clock.ts'
import type { BundleTable } from './bundle-table.ts'
import type { IsHeld } from './held-roots.ts'
import type { RevocationTable } from './revocation.ts'
import { RootRemoval } from './root-removal.ts'
import { RootRotations } from './root-rotations.ts'
import type { TrustBundle } from './trust-bundle.ts'
import type { TrustEvent } from './trust-event.ts'

export interface RootLifecycleOptions {
  readonly clock: Clock
  /** The agent's own: its roots are stored. */
  readonly trustDomain: string
  readonly bundles: BundleTable
  readonly revocation: RevocationTable
  readonly settleMs: number
  /** Of roots that count for one identity. */
  readonly ownSettleMs: number
  readonly ackWaitMs: number
  /** Has the roots of the trust domain from the previous process, and gets them for the next. */
  readonly store?: Store | undefined
  readonly record: (name: string, event: SecretEvent) => void
  readonly dispatch: (event: TrustEvent) => void
}

export class RootLifecycle implements Disposable {
  readonly rotations: RootRotations
  readonly #options: RootLifecycleOptions
  readonly #removal: RootRemoval

  constructor(options: RootLifecycleOptions) {
    const { clock, ackWaitMs, record, dispatch } = options
    this.#options = options
    this.rotations = new RootRotations({
      clock,
      ackWaitMs,
      record,
      onChange: bundle => this.onPhase(bundle),
      dispatch,
    })
    this.#removal = new RootRemoval({
      clock,
      settleMs: ({ owner }) => (owner ? options.ownSettleMs : options.settleMs),
      isHeld: (bundle, fingerprint) => this.rotations.isHeld(bundle, fingerprint),
      onRemoved: (bundle, removed) => this.#onRemoved(bundle, removed, 'nothing needs it'),
    })
  }

  /** Roots were added. `announced`: those of them that clients are to learn before leaves under them are served. */
  onAdded(bundle: TrustBundle, announced: readonly TrustAnchor[]): void {
    this.rotations.announce(bundle, announced)
    this.publish(bundle)
  }

  /** Roots that were revoked have left the bundle, for `reason`. */
  onRevoked(bundle: TrustBundle, removed: readonly TrustAnchor[], reason: string): void {
    if (removed.length > 0) this.#onRemoved(bundle, removed, reason)
  }

  /** A root of the bundle has another phase. */
  onPhase(bundle: TrustBundle): void {
    this.putRoots(bundle)
    this.schedulePrune(bundle)
  }

  /** Its roots, as they are now, go to all who watch it. */
  publish(bundle: TrustBundle): void {
    const { bundles, revocation, record, dispatch } = this.#options
    const { secret, name, trustDomain, owner } = bundle
    if (!secret) return
    this.#removal.planExpiry(bundle)
    const anchors = bundle.anchors()
    record(name, { kind: 'roots-changed', version: secret.version, roots: anchors.length })
    if (!owner) revocation.of(trustDomain).report(anchors)
    bundles.notify(bundle)
    dispatch({ kind: 'bundlePublished', bundle })
  }

  /** Stores the roots of the agent's trust domain, each with its phase. */
  putRoots(bundle: TrustBundle): void {
    const { bundles, trustDomain, store } = this.#options
    if (bundle !== bundles.get(trustDomain)) return
    const phase = (fingerprint: string) => ({
      ...(this.rotations.isAnnouncing(bundle, fingerprint) && { isAnnouncing: true }),
      ...(this.rotations.isHeld(bundle, fingerprint) && { isHeld: true }),
    })
    store?.putRoots(bundle.stored(phase))
  }

  /** See {@link RootRemoval.schedule}. */
  schedulePrune(bundle: TrustBundle): void {
    this.#removal.schedule(bundle)
  }

  /** Which roots of the bundle an operator keeps where they are. */
  isHeldIn(bundle: TrustBundle): IsHeld {
    return fingerprint => this.rotations.isHeld(bundle, fingerprint)
  }

  /** The bundle is not used again. */
  release(bundle: TrustBundle): void {
    this.#removal.forget(bundle)
    this.rotations.forget(bundle)
  }

  #onRemoved(bundle: TrustBundle, removed: readonly TrustAnchor[], reason: string): void {
    this.publish(bundle)
    this.rotations.removed(bundle, removed, reason)
  }

  [Symbol.dispose](): void {
    this.rotations[Symbol.dispose]()
    this.#removal[Symbol.dispose]()
  }
}

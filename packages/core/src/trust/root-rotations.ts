/** The rotations of all trust bundles, and the streams whose answers they wait for. */

import type { SecretEvent } from '../contract/secret-event.ts'
import type { RootPhase, StoredRoot, TrustAnchor } from '../contract/trust-anchor.ts'
import type { TrustBundleSecret } from '../identity/secret-item.ts'
import type { Clock } from '../time/clock.ts'
import { type BundleReceipt, BundleReceipts, type ReceiptListener } from './bundle-receipts.ts'
import { RootRotation, type WaitedFor } from './root-rotation.ts'
import type { TrustBundle } from './trust-bundle.ts'
import type { TrustEvent } from './trust-event.ts'

export interface RootRotationsOptions {
  readonly clock: Clock
  /** How long clients that say nothing are waited for, milliseconds. */
  readonly ackWaitMs: number
  readonly record: (name: string, event: SecretEvent) => void
  /** A root of the bundle has another phase. */
  readonly onChange: (bundle: TrustBundle) => void
  readonly dispatch: (event: TrustEvent) => void
}

export class RootRotations implements ReceiptListener, Disposable {
  readonly receipts: BundleReceipts
  readonly #options: RootRotationsOptions
  readonly #rotations = new Map<TrustBundle, RootRotation>()
  /** The receipts of trust domains. Roots of one identity come with its certificate, and no other stream gets them. */
  readonly #byName = new Map<string, RootRotation>()

  constructor(options: RootRotationsOptions) {
    this.#options = options
    this.receipts = new BundleReceipts(this)
  }

  /** Whether leaves under a root may be served. */
  isTrusted(bundle: TrustBundle, fingerprint: string): boolean {
    return this.#rotations.get(bundle)?.isTrusted(fingerprint) ?? true
  }

  isHeld(bundle: TrustBundle, fingerprint: string): boolean {
    return this.#rotations.get(bundle)?.isHeld(fingerprint) ?? false
  }

  isAnnouncing(bundle: TrustBundle, fingerprint: string): boolean {
    return this.#rotations.get(bundle)?.isAnnouncing(fingerprint) ?? false
  }

  /** How many clients an announcement waits for. */
  waiting(bundle: TrustBundle, fingerprint: string): number {
    return this.#rotations.get(bundle)?.waiting(fingerprint) ?? 0
  }

  waitsFor(bundle: TrustBundle, fingerprint: string): readonly WaitedFor[] {
    return this.#rotations.get(bundle)?.waitsFor(fingerprint) ?? []
  }

  /** Made when it is first needed: most bundles of single identities never rotate. */
  of(bundle: TrustBundle): RootRotation {
    const present = this.#rotations.get(bundle)
    if (present) return present
    const { clock, ackWaitMs, dispatch } = this.#options
    const { owner, name } = bundle
    const rotation = new RootRotation({
      clock,
      ackWaitMs,
      receipts: () => (owner ? [] : this.receipts.of(name)),
      report: (fingerprint, phase, reason) => this.#report(bundle, fingerprint, phase, reason),
      onTrusted: fingerprint => dispatch({ kind: 'rootTrusted', bundle, fingerprint }),
    })
    this.#rotations.set(bundle, rotation)
    if (!owner) this.#byName.set(name, rotation)
    return rotation
  }

  /** Roots that were added to others. */
  announce(bundle: TrustBundle, added: readonly TrustAnchor[]): void {
    if (added.length === 0) return
    const rotation = this.of(bundle)
    rotation.forgetAllBut(fingerprint => bundle.anchor(fingerprint) !== undefined)
    for (const anchor of added) rotation.announce(anchor.fingerprint, anchor)
  }

  /** Takes up the phase that a root was in. Streams have yet to come back, so that an announcement begins again. */
  restore(bundle: TrustBundle, { fingerprint }: TrustAnchor, stored: StoredRoot, settlesAt: number): void {
    const rotation = this.of(bundle)
    if (stored.isAnnouncing) rotation.announce(fingerprint, { learnedAt: this.#options.clock.now(), settlesAt })
    if (stored.isHeld) rotation.hold(fingerprint)
  }

  /** Roots that have left the bundle, for `reason`. */
  removed(bundle: TrustBundle, removed: readonly TrustAnchor[], reason: string): void {
    for (const { fingerprint } of removed) {
      this.#rotations.get(bundle)?.forget(fingerprint)
      this.#report(bundle, fingerprint, 'removed', reason)
    }
  }

  forget(bundle: TrustBundle): void {
    const rotation = this.#rotations.get(bundle)
    rotation?.[Symbol.dispose]()
    this.#rotations.delete(bundle)
    if (!bundle.owner) this.#byName.delete(bundle.name)
  }

  onFirstSent(receipt: BundleReceipt, secret: TrustBundleSecret): void {
    this.#byName.get(receipt.name)?.onFirstSent(receipt, secret)
  }

  onAnswered(receipt: BundleReceipt): void {
    this.#byName.get(receipt.name)?.onAnswered(receipt)
  }

  onClosed(receipt: BundleReceipt): void {
    this.#byName.get(receipt.name)?.onClosed(receipt)
  }

  [Symbol.dispose](): void {
    for (const rotation of this.#rotations.values()) rotation[Symbol.dispose]()
    this.#rotations.clear()
    this.#byName.clear()
  }

  #report(bundle: TrustBundle, fingerprint: string, phase: RootPhase | 'removed', reason: string): void {
    this.#options.record(bundle.name, { kind: 'root-phase', fingerprint, phase, reason })
    this.#options.onChange(bundle)
  }
}

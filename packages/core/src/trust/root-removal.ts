/** When roots leave their bundles: given up and needed by nothing, or expired. */

import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { Clock } from '../time/clock.ts'
import type { IsHeld } from './held-roots.ts'
import type { TrustBundle } from './trust-bundle.ts'

export interface RootRemovalOptions {
  readonly clock: Clock
  /** How long roots of this bundle that were not revoked stay at least once nothing needs them, milliseconds. */
  readonly settleMs: (bundle: TrustBundle) => number
  /** Whether an operator keeps a root where it is. */
  readonly isHeld: (bundle: TrustBundle, fingerprint: string) => boolean
  /** Called with the roots that have left. */
  readonly onRemoved: (bundle: TrustBundle, removed: readonly TrustAnchor[]) => void
}

export class RootRemoval implements Disposable {
  readonly #options: RootRemovalOptions
  readonly #prunes = new Map<TrustBundle, { readonly at: number; readonly timer: Disposable }>()
  readonly #expiries = new Map<TrustBundle, Disposable>()
  #isClosed = false

  constructor(options: RootRemovalOptions) {
    this.#options = options
  }

  /** Call when a root was given up or a leaf under it replaced: removes it when its time has come, after the settle time. */
  schedule(bundle: TrustBundle): void {
    const { clock, settleMs } = this.#options
    if (!bundle.secret || this.#isClosed) return
    const now = clock.now()
    const at = Math.max(bundle.prunableAt(this.#isHeldIn(bundle), now + settleMs(bundle)), now)
    const planned = this.#prunes.get(bundle)
    if (at === Number.POSITIVE_INFINITY || (planned && planned.at <= at)) return
    planned?.timer[Symbol.dispose]()
    const timer = clock.at(at, () => {
      this.#prunes.delete(bundle)
      this.#prune(bundle)
      this.schedule(bundle)
    })
    this.#prunes.set(bundle, { at, timer })
  }

  /** Call when the roots are others: an expired one goes at its notAfter, whatever else happens. */
  planExpiry(bundle: TrustBundle): void {
    const { clock } = this.#options
    this.#expiries.get(bundle)?.[Symbol.dispose]()
    this.#expiries.delete(bundle)
    const expiry = bundle.nextExpiry(clock.now())
    if (expiry === undefined || this.#isClosed) return
    const timer = clock.at(expiry, () => {
      this.#prune(bundle)
      this.planExpiry(bundle)
    })
    this.#expiries.set(bundle, timer)
  }

  /** The bundle is not used again. */
  forget(bundle: TrustBundle): void {
    this.#prunes.get(bundle)?.timer[Symbol.dispose]()
    this.#prunes.delete(bundle)
    this.#expiries.get(bundle)?.[Symbol.dispose]()
    this.#expiries.delete(bundle)
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    for (const { timer } of this.#prunes.values()) timer[Symbol.dispose]()
    for (const timer of this.#expiries.values()) timer[Symbol.dispose]()
  }

  #prune(bundle: TrustBundle): void {
    const removed = bundle.prune(this.#options.clock.now(), this.#isHeldIn(bundle))
    if (removed.length > 0) this.#options.onRemoved(bundle, removed)
  }

  #isHeldIn(bundle: TrustBundle): IsHeld {
    return fingerprint => this.#options.isHeld(bundle, fingerprint)
  }
}

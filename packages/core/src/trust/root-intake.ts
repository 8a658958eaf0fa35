/** Takes roots into their bundles: those that the CA lists, that come with its answers, that the operator lists, that were stored. */

import type { SecretEvent } from '../contract/secret-event.ts'
import type { Root, StoredRoot, TrustAnchor } from '../contract/trust-anchor.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import { type BundleTable, MAX_TRUST_DOMAINS } from './bundle-table.ts'
import type { RootLifecycle } from './root-lifecycle.ts'
import { type ReadRoots, type RootReader, summarize } from './root-reader.ts'
import type { Learned, LearnOptions, TrustBundle } from './trust-bundle.ts'
import type { TrustEvent } from './trust-event.ts'

export interface RootIntakeOptions {
  /** Whether a root that is missing from the CA's list is revoked. */
  readonly revokesMissingRoots: boolean
  readonly clock: Clock
  /** The agent's own. */
  readonly trustDomain: string
  readonly settleMs: number
  readonly reader: RootReader
  readonly bundles: BundleTable
  readonly lifecycle: RootLifecycle
  readonly record: (name: string, event: SecretEvent) => void
  readonly dispatch: (event: TrustEvent) => void
}

export class RootIntake {
  readonly #options: RootIntakeOptions

  constructor(options: RootIntakeOptions) {
    this.#options = options
  }

  /** Takes the roots that the previous process stored, each in its phase. */
  restore(roots: readonly StoredRoot[]): void {
    const { clock, trustDomain, settleMs, reader, bundles, lifecycle, record } = this.#options
    const bundle = bundles.open(trustDomain)
    for (const reason of bundle?.restore(roots, reader, clock.now()) ?? [])
      record(`spiffe://${trustDomain}`, { kind: 'not-restored', reason })
    if (!bundle?.secret) return
    bundles.put(bundle)
    lifecycle.publish(bundle)
    for (const stored of roots.filter(({ isAnnouncing, isHeld }) => isAnnouncing || isHeld)) {
      const root = reader.readOne(stored.pem)
      const anchor = typeof root === 'string' ? undefined : bundle.anchor(root.fingerprint)
      if (anchor) lifecycle.rotations.restore(bundle, anchor, stored, clock.now() + settleMs)
    }
    lifecycle.schedulePrune(bundle)
    this.applyLists(bundle)
  }

  /** Takes the roots that the CA has named. */
  learn(
    trustDomain: string,
    { roots, rejected, isWhole }: Pick<ReadRoots, 'roots' | 'rejected' | 'isWhole'>,
    from: LearnOptions['from'],
  ): void {
    const { clock, bundles, lifecycle, dispatch } = this.#options
    const bundle = bundles.open(trustDomain)
    const isFirst = bundle?.hasNoneOfTheCA ?? true
    const how = { from, complete: isWhole, now: clock.now(), isHeld: bundle && lifecycle.isHeldIn(bundle) }
    const learned = bundle?.learn(roots, how) ?? NO_PLACE
    this.#recordRejected(`spiffe://${trustDomain}`, [...rejected, ...learned.rejected])
    if (!bundle) return
    if (learned.added.length > 0) this.#hold(bundle, isFirst ? [] : learned.added)
    const [givenUp, revoked] = this.#options.revokesMissingRoots ? [[], learned.givenUp] : [learned.givenUp, []]
    const removed = bundle.revoke(revoked, lifecycle.isHeldIn(bundle))
    lifecycle.onRevoked(bundle, removed, 'the CA has revoked it')
    if (learned.added.length > 0 || learned.adopted.length > 0 || learned.givenUp.length > 0) {
      lifecycle.putRoots(bundle)
      for (const { fingerprint } of learned.adopted)
        if (!isFirst && lifecycle.rotations.isTrusted(bundle, fingerprint))
          dispatch({ kind: 'rootTrusted', bundle, fingerprint })
      dispatch({
        kind: 'rootsMoved',
        bundle,
        moves: { added: [...learned.added, ...learned.adopted], givenUp, revoked },
      })
      lifecycle.schedulePrune(bundle)
    } else if (learned.isRenamed) lifecycle.onPhase(bundle)
  }

  /** Takes roots that count for one identity. The list is whole: the file that it is from says which roots there are. */
  learnOwn(identity: SpiffeId, { roots, rejected, isWhole }: Pick<ReadRoots, 'roots' | 'rejected' | 'isWhole'>): void {
    const { clock, bundles, lifecycle } = this.#options
    const bundle = bundles.openOwn(identity)
    const isFirst = bundle.hasNoneOfTheCA
    const how = { from: LIST, complete: isWhole, now: clock.now(), isHeld: lifecycle.isHeldIn(bundle) }
    const learned = bundle.learn(roots, how)
    this.#recordRejected(identity, [...rejected, ...learned.rejected])
    if (learned.added.length > 0) lifecycle.onAdded(bundle, isFirst ? [] : learned.added)
    if (learned.added.length > 0 || learned.givenUp.length > 0) lifecycle.schedulePrune(bundle)
  }

  /** Takes all roots that the operator lists for a trust domain (`undefined`: no list); leaves follow them once the CA names one. */
  configure(trustDomain: string, roots: readonly Root[] | undefined): void {
    const { clock, bundles, lifecycle, record, dispatch } = this.#options
    const bundle = bundles.open(trustDomain)
    const isFirst = bundle?.hasNoneOfTheCA ?? true
    const learned = bundle?.configure(roots ?? [], clock.now(), lifecycle.isHeldIn(bundle)) ?? NO_PLACE
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
      dispatch({ kind: 'rootsMoved', bundle, moves: { added: [], givenUp: learned.givenUp, revoked: [] } })
      lifecycle.schedulePrune(bundle)
    }
  }

  /** Revokes the roots of the bundle that a revocation list of their issuer names. */
  applyLists(bundle: TrustBundle): void {
    const { lifecycle, dispatch } = this.#options
    const revoked = bundle.revokedByLists().filter(fingerprint => !bundle.isRevoked(fingerprint))
    if (revoked.length === 0) return
    const removed = bundle.revoke(revoked, lifecycle.isHeldIn(bundle))
    lifecycle.onRevoked(bundle, removed, 'a revocation list of its issuer names it')
    lifecycle.onPhase(bundle)
    dispatch({ kind: 'rootsMoved', bundle, moves: { added: [], givenUp: [], revoked } })
  }

  /** `announced`: its roots that clients are to learn before leaves under them are served. */
  #hold(bundle: TrustBundle, announced: readonly TrustAnchor[]): void {
    const { bundles, lifecycle } = this.#options
    bundles.put(bundle)
    lifecycle.onAdded(bundle, announced)
    this.applyLists(bundle)
  }

  /** Nobody lists roots of the trust domain any longer, which is not the agent's own. */
  #forget(bundle: TrustBundle): void {
    const { bundles, lifecycle } = this.#options
    if (!bundles.delete(bundle)) return
    lifecycle.release(bundle)
    bundle.clear()
    bundles.notify(bundle)
  }

  #recordRejected(name: string, reasons: readonly string[]): void {
    if (reasons.length === 0) return
    const message = `Roots were left out: ${summarize(reasons)}`
    this.#options.record(name, { kind: 'ca-error', code: 'bad-response', message })
  }
}

const LIST = { kind: 'list' } as const

const NO_PLACE: Learned = {
  isRenamed: false,
  added: [],
  adopted: [],
  givenUp: [],
  rejected: [`roots of ${MAX_TRUST_DOMAINS} trust domains are held already`],
}

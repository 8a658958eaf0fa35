/** When the certificate of each identity is requested: at first, to renew it, because somebody waits, because the CA changed. */

import type { CAChange } from '../contract/ca-client.ts'
import { asShownCAError } from '../contract/ca-failure.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Store } from '../contract/store.ts'
import type { Issued } from '../identity/issued-certificate.ts'
import type { ManagedIdentity } from '../identity/managed-identity.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { RetryPolicy } from '../time/backoff.ts'
import type { Clock } from '../time/clock.ts'
import type { RootMoves } from '../trust/root-intake.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import type { TrustStore } from '../trust/trust-store.ts'
import { CAThrottle, type SentRequest } from './ca-throttle.ts'
import { CertificateIntake } from './certificate-intake.ts'
import { type IssuanceOptions, issue } from './issue-certificate.ts'
import { LeafRollout } from './leaf-rollout.ts'
import { OutageRecovery } from './outage-recovery.ts'
import { Preflight } from './preflight.ts'
import { MIN_RENEWAL_INTERVAL_MS, renewalPhase } from './renewal-time.ts'
import { RequestPlan } from './request-plan.ts'
import type { Restored } from './restoration.ts'
import { RestoreQueue } from './restore-queue.ts'
import { Retries } from './retries.ts'
import { RevokedCertificates } from './revoked-certificates.ts'
import { plannedPerMinute, type ScheduleStatus } from './schedule-status.ts'
import { SharedRefusals } from './shared-refusals.ts'
import { TtlWishes } from './ttl-wishes.ts'

/** A failed request is tried again so soon while somebody waits, however often they ask. */
const HURRIED_RETRY_MS = 10_000

export interface FetchScheduleOptions {
  readonly issuance: IssuanceOptions
  /** The lifetime to ask for. */
  readonly ttlSeconds: number
  readonly random: () => number
  readonly rotation: {
    readonly ratio: number
    readonly jitter: number
    readonly settleMs: number
  }
  readonly retry: RetryPolicy
  readonly concurrency: number
  readonly trust: TrustStore
  /** Has the certificates of the previous process. */
  readonly store?: Store | undefined
  /** Every identity that is held. */
  readonly identities: ReadonlyMap<SpiffeId, ManagedIdentity>
  /** Whether somebody streams it. */
  readonly isUsed: (identity: SpiffeId) => boolean
  readonly record: (name: string, event: SecretEvent) => void
}

/** Fetches, renews and tries again, as much at once as the CA takes. */
export class FetchSchedule implements AsyncDisposable {
  readonly #options: FetchScheduleOptions
  readonly #clock: Clock
  readonly #throttle: CAThrottle<ManagedIdentity>
  readonly #restoring: RestoreQueue | undefined
  /** When certificates under a new root are served. */
  readonly rollout: LeafRollout
  /** Which certificates are not served, since clients would refuse them. */
  readonly preflight: Preflight
  /** Which certificates in use are revoked. */
  readonly revoked: RevokedCertificates
  readonly #plan: RequestPlan
  readonly #intake: CertificateIntake
  readonly #retries: Retries
  readonly #recovery: OutageRecovery
  readonly #refusals: SharedRefusals
  readonly #ttl: TtlWishes
  readonly #inFlight = new Set<Promise<void>>()

  constructor(options: FetchScheduleOptions) {
    const { clock } = options.issuance
    this.#options = options
    this.#clock = clock
    this.#ttl = new TtlWishes(options.ttlSeconds)
    this.preflight = new Preflight({ ...options, ...options.issuance })
    this.rollout = new LeafRollout({
      ...options,
      clock,
      preflight: this.preflight,
      bringForward: (managed, due) => this.#plan.bringForward(managed, due, 'new-root'),
    })
    const { random, concurrency, retry } = options
    this.#throttle = new CAThrottle(
      {
        clock,
        random,
        concurrency,
        maxWaitMs: retry.maxMs,
        leastLeftMs: () => this.#recovery.leastLeftMs(),
        onDown: () => this.#recovery.onDown(),
        onBack: downSince => this.#recovery.onBack(downSince),
      },
      (managed, sent) => this.#track(this.#fetch(managed, sent)),
    )
    const { issuance, trust, store, record } = options
    this.#restoring =
      store && new RestoreQueue({ ...issuance, trust, store, record }, (...found) => this.#onRestored(...found))
    const throttle = this.#throttle
    const plan = new RequestPlan({ clock, random, retry, throttle, record })
    this.#plan = plan
    this.#intake = new CertificateIntake({ ...options, clock, plan, rollout: this.rollout })
    // While somebody takes their time to approve it: that says nothing of the CA.
    const waitsForApproval = ({ identity }: ManagedIdentity) => issuance.pending.has(identity)
    const parts = { ...options, clock, throttle, plan, waitsForApproval }
    this.revoked = new RevokedCertificates({ ...options, plan, throttle })
    this.#recovery = new OutageRecovery({
      ...parts,
      refreshRoots: () => void this.#track(trust.refresh()),
    })
    this.#refusals = new SharedRefusals({
      ...parts,
      leastLeftMs: () => this.#recovery.leastLeftMs(),
      wake: managed => this.#recovery.wake(managed),
      report: event => record(`spiffe://${trust.trustDomain}`, event),
    })
    this.#retries = new Retries({ ...parts, refusals: this.#refusals, ttl: this.#ttl })
  }

  /** Finds a certificate for an identity that is new: in the store, else at the CA. */
  start(managed: ManagedIdentity): void {
    const urgency = managed.hold.kind === 'on-demand' ? 'on-demand' : 'first'
    if (!this.#restoring?.start(managed, urgency)) this.#plan.enqueue(managed, urgency)
  }

  /** When the CA, which is down, is probed next, milliseconds since the epoch; `undefined` while it is not. */
  get nextProbeAt(): number | undefined {
    return this.#throttle.nextProbeAt
  }

  status(): ScheduleStatus {
    return this.#throttle.status()
  }

  /** See {@link plannedPerMinute}. */
  plannedPerMinute(): readonly number[] {
    return plannedPerMinute(this.#options.identities.values(), this.#clock.now())
  }

  /** Somebody waits for it, and it has no certificate or fails to renew the one that it has. */
  hurry(managed: ManagedIdentity): void {
    const { lastFailure, activity, served } = managed
    if (activity.kind === 'queued') {
      this.#throttle.push(managed, served.current ? 'renewal' : 'on-demand')
      this.#throttle.hurry()
    } else if (activity.kind === 'idle') this.#plan.enqueue(managed, 'on-demand')
    else if (managed.isFailing && lastFailure) {
      this.#refusals.hurry(managed)
      const reason = served.current ? 'renewal' : 'on-demand'
      const now = this.#clock.now()
      this.#plan.bringForward(managed, Math.max(now, Math.min(lastFailure.at, now) + HURRIED_RETRY_MS), reason)
    } else this.#restoring?.hurry(managed)
  }

  /** Its certificate has ended: a request that is still queued is as urgent as if there had never been one. */
  onExpired(managed: ManagedIdentity, { isWanted }: { readonly isWanted: boolean }): void {
    if (managed.activity.kind === 'queued') this.#throttle.push(managed, isWanted ? 'on-demand' : 'first')
  }

  /** The reason for the CA's refusal may no longer hold. */
  retryNow(managed: ManagedIdentity): void {
    if (managed.activity.kind !== 'waiting') return
    managed.forgive()
    if (!managed.served.current) this.#plan.enqueue(managed, 'first')
    else if (managed.isFailing) this.#plan.enqueue(managed, 'renewal')
  }

  /** An operator wishes it. */
  renewNow(managed: ManagedIdentity): void {
    const { activity, lastSuccessAt = 0 } = managed
    const due = Math.min(lastSuccessAt, this.#clock.now()) + MIN_RENEWAL_INTERVAL_MS
    if (activity.kind === 'waiting' && due > this.#clock.now()) this.#plan.bringForward(managed, due, 'renewal')
    else if (activity.kind === 'waiting' || activity.kind === 'idle')
      this.#plan.enqueue(managed, managed.served.current ? 'renewal' : 'on-demand', 'on-demand')
    else if (activity.kind === 'queued') this.#throttle.push(managed, 'on-demand')
    this.#throttle.hurry()
  }

  /** Failed fetches are tried again soon: the cause has perhaps passed. */
  retryFailing(): void {
    this.#recovery.retryFailing()
  }

  /** Plans nothing more for it; a request in flight is aborted, one that waits for an approval given up. */
  stop(managed: ManagedIdentity, kind: 'idle' | 'forgotten'): void {
    managed.stop(kind)
    this.#throttle.delete(managed)
    this.#restoring?.delete(managed)
    this.#ttl.forget(managed.identity)
    this.#options.issuance.pending.drop(managed.identity)
  }

  /** Nothing is asked of the CA until `release`. */
  hold(): void {
    this.#throttle.hold()
  }

  /** Identities that fell due meanwhile are fetched by the time that they have left; failing ones are tried again, whatever their backoff was. */
  release(): void {
    this.#throttle.release()
    this.#refusals.clockJumped()
    this.#recovery.retryFailing()
  }

  /** The CA reports a change. */
  onCAChange(change: CAChange): void {
    if (change.kind === 'roots') {
      void this.#track(this.#options.trust.refreshAgain())
      return
    }
    for (const identity of change.identities ?? []) {
      const managed = this.#options.identities.get(identity)
      if (managed?.activity.kind === 'waiting') this.#plan.enqueue(managed, 'renewal')
      // Behind all others that wait for a CA that is down, its turn could come hours later.
      else if (managed?.activity.kind === 'queued') this.hurry(managed)
      else managed?.markOutdated()
    }
    if (change.identities) return
    for (const managed of this.#options.identities.values()) {
      if (managed.activity.kind === 'waiting')
        this.#plan.bringForward(managed, this.#intake.followTime(managed), 'renewal')
      else managed.markOutdated()
    }
  }

  /** Failed fetches are tried again under a new root: they can have failed for want of it. Leaves under roots that were given up are replaced. */
  onRootsMoved(bundle: TrustBundle, { added, givenUp, revoked }: RootMoves): void {
    if (added.length > 0) this.#recovery.retryFailing(bundle.trustDomain)
    this.rollout.onGivenUp(bundle, givenUp)
    this.rollout.onRevoked(bundle, revoked)
  }

  /** Resolves when no identity waits for what the store has for it. */
  async restored(): Promise<void> {
    await this.#restoring?.settled()
  }

  /** Resolves when no request is in flight. Every identity has to be stopped before. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#throttle[Symbol.dispose]()
    this.#refusals[Symbol.dispose]()
    await Promise.all([...this.#inFlight, this.#restoring?.settled()])
  }

  async #track(fetch: Promise<void>): Promise<void> {
    this.#inFlight.add(fetch)
    await fetch
    this.#inFlight.delete(fetch)
  }

  async #fetch(managed: ManagedIdentity, sent: SentRequest): Promise<void> {
    if (managed.activity.kind !== 'queued') return
    const { identity, tokenFile } = managed
    this.#options.record(identity, { kind: 'csr-sent', reason: managed.activity.reason })
    const controller = managed.startFetching()
    try {
      const issued = await issue(this.#options.issuance, {
        identity,
        ttlSeconds: this.#ttl.of(identity),
        ...(tokenFile === undefined ? {} : { tokenFile }),
        connectWithinMs: sent.connectWithinMs,
        phase: renewalPhase(managed.phase, this.#options.random()),
        trustStore: this.#options.trust,
        controller,
        servesRefused: reason => this.preflight.allows(managed, reason),
      })
      this.#throttle.succeeded(sent)
      this.#ttl.accepted(identity)
      const { failingWith } = managed
      // Only the request that is still the current one may change anything: forgetting wins over a late answer.
      if (managed.isFetching(controller)) this.#intake.accept(managed, issued, sent.at)
      else this.#discard(managed, issued)
      this.#refusals.succeeded(managed, failingWith, sent)
    } catch (error) {
      if (managed.isFetching(controller)) this.#retries.failed(managed, asShownCAError(error), sent)
    }
  }

  /** Nobody waits for it now. */
  #discard({ identity }: ManagedIdentity, issued: Issued | undefined): void {
    issued?.release()
    if (!this.#options.identities.has(identity)) this.#options.trust.forgetOwn(identity)
  }

  #onRestored(managed: ManagedIdentity, issued: Restored | undefined): void {
    const { activity } = managed
    if (activity.kind !== 'restoring') this.#discard(managed, issued)
    else if (!issued) this.#plan.enqueue(managed, activity.urgency)
    else {
      this.#intake.acceptRestored(managed, issued)
      this.revoked.look(managed)
      if (issued.isProvisional) this.#plan.enqueue(managed, 'first')
      else if (activity.isOutdated) this.#plan.bringForward(managed, this.#intake.followTime(managed), 'renewal')
    }
  }
}

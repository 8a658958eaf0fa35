/** When the certificate of each identity is asked for, and what becomes of the answer. */

import { type CAChange, CAError } from '../contract/ca-client.ts'
import { asShownCAError } from '../contract/ca-failure.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Store } from '../contract/store.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { Issued } from '../identity/issued-certificate.ts'
import type { ManagedIdentity, Reason, Urgency } from '../identity/managed-identity.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { backoff, type RetryPolicy } from '../time/backoff.ts'
import type { Clock } from '../time/clock.ts'
import type { Learned, TrustBundle } from '../trust/trust-bundle.ts'
import type { TrustStore } from '../trust/trust-store.ts'
import { HANGING_MS } from './ca-circuit.ts'
import { CAThrottle, isAbsence } from './ca-throttle.ts'
import { type IssuanceOptions, issue } from './issue-certificate.ts'
import { KeyDemand } from './key-demand.ts'
import type { Restored } from './restoration.ts'
import { RestoreQueue } from './restore-queue.ts'
import {
  followTime,
  latestChange,
  MIN_RENEWAL_INTERVAL_MS,
  overdueTime,
  renewalPhase,
  renewalTime,
  retryTime,
  turnTime,
  wakeTime,
} from './rotation.ts'
import { TtlWishes } from './ttl-wishes.ts'

/** A failed request is tried again so soon while somebody waits, however often they ask. */
const HURRIED_RETRY_MS = 10_000

export interface FetchScheduleOptions {
  readonly issuance: IssuanceOptions
  /** The lifetime to ask for. */
  readonly ttlSeconds: number
  readonly random: () => number
  readonly rotation: { readonly ratio: number; readonly jitter: number; readonly settleMs: number }
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
  readonly #keyDemand: KeyDemand
  readonly #ttl: TtlWishes
  /** Each is reported once, not by each identity. */
  #lowestTtlReported = Number.POSITIVE_INFINITY
  readonly #inFlight = new Set<Promise<void>>()

  constructor(options: FetchScheduleOptions) {
    const { clock, keyGenerator, keyType } = options.issuance
    this.#options = options
    this.#clock = clock
    this.#ttl = new TtlWishes(options.ttlSeconds)
    const { random, concurrency, retry } = options
    this.#throttle = new CAThrottle(
      {
        clock,
        random,
        concurrency,
        maxWaitMs: retry.maxMs,
        leastLeftMs: () => this.#leastLeft(),
        onDown: () => this.#reportOutage({ kind: 'ca-down' }),
        onBack: downSince => this.#onCABack(downSince),
      },
      managed => this.#track(this.#fetch(managed)),
    )
    const { issuance, trust, store, record } = options
    this.#restoring =
      store && new RestoreQueue({ ...issuance, trust, store, record }, (...found) => this.#onRestored(...found))
    this.#keyDemand = new KeyDemand({ clock, keyGenerator, keyType, countUntil: time => this.#countDue(time) })
  }

  /** Finds a certificate for an identity that is new: in the store, else at the CA. */
  start(managed: ManagedIdentity): void {
    const urgency = managed.hold.kind === 'on-demand' ? 'on-demand' : 'first'
    if (!this.#restoring?.start(managed, urgency)) this.#enqueue(managed, urgency)
  }

  /** When the CA, which is down, is probed next, milliseconds since the epoch; `undefined` while it is not. */
  get nextProbeAt(): number | undefined {
    return this.#throttle.nextProbeAt
  }

  /** Somebody waits for it, and it has no certificate or fails to renew the one that it has. */
  hurry(managed: ManagedIdentity): void {
    const { lastFailure, activity, served } = managed
    if (activity.kind === 'queued') {
      this.#throttle.push(managed, served.current ? 'renewal' : 'on-demand')
      this.#throttle.hurry()
    } else if (activity.kind === 'idle') this.#enqueue(managed, 'on-demand')
    else if (managed.isFailing && lastFailure) {
      const reason = served.current ? 'renewal' : 'on-demand'
      const now = this.#clock.now()
      this.#bringForward(managed, Math.max(now, Math.min(lastFailure.at, now) + HURRIED_RETRY_MS), reason)
    } else this.#restoring?.hurry(managed)
  }

  /** Its certificate has ended: a request that is still queued is as urgent as if there had never been one. */
  onExpired(managed: ManagedIdentity, { isWanted }: { readonly isWanted: boolean }): void {
    if (managed.activity.kind === 'queued') this.#throttle.push(managed, isWanted ? 'on-demand' : 'first')
  }

  /** The reason for the CA's refusal may no longer hold. */
  retryNow(managed: ManagedIdentity): void {
    if (managed.activity.kind !== 'waiting') return
    if (!managed.served.current) this.#enqueue(managed, 'first')
    else if (managed.isFailing) this.#enqueue(managed, 'renewal')
  }

  /** An operator wishes it. */
  renewNow(managed: ManagedIdentity): void {
    const { activity, lastSuccessAt = 0 } = managed
    const due = Math.min(lastSuccessAt, this.#clock.now()) + MIN_RENEWAL_INTERVAL_MS
    if (activity.kind === 'waiting' && due > this.#clock.now()) this.#bringForward(managed, due, 'renewal')
    else if (activity.kind === 'waiting' || activity.kind === 'idle')
      this.#enqueue(managed, managed.served.current ? 'renewal' : 'on-demand', 'on-demand')
    else if (activity.kind === 'queued') this.#throttle.push(managed, 'on-demand')
    this.#throttle.hurry()
  }

  /** The cause may be gone: something changed for all identities, or for those of a trust domain. */
  retryFailing(trustDomain?: string): void {
    for (const managed of this.#options.identities.values()) {
      const { isFailing, lastFailure, identity } = managed
      if (!isFailing || !lastFailure || (trustDomain !== undefined && trustDomainOf(identity) !== trustDomain)) continue
      const due = Math.max(
        this.#wakeTime(managed),
        Math.min(lastFailure.at, this.#clock.now()) + this.#options.retry.minMs,
      )
      this.#bringForward(managed, due, managed.served.current ? 'renewal' : 'first')
    }
    this.#throttle.hurry()
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

  /** What fell due meanwhile is asked for by what is left of it, and what fails again, whatever its backoff was. */
  release(): void {
    this.#throttle.release()
    this.retryFailing()
  }

  /** The CA reports a change. */
  onCAChange(change: CAChange): void {
    if (change.kind === 'roots') {
      void this.#track(this.#options.trust.refreshAgain())
      return
    }
    for (const identity of change.identities ?? []) {
      const managed = this.#options.identities.get(identity)
      if (managed?.activity.kind === 'waiting') this.#enqueue(managed, 'renewal')
      // Behind all others that wait for a CA that is down, its turn could come hours later.
      else if (managed?.activity.kind === 'queued') this.hurry(managed)
      else managed?.markOutdated()
    }
    if (change.identities) return
    for (const managed of this.#options.identities.values()) {
      if (managed.activity.kind === 'waiting') this.#bringForward(managed, this.#followTime(managed), 'renewal')
      else managed.markOutdated()
    }
  }

  /** What the CA refused, or its answer failed, may pass with a new root. Leaves under roots that were given up are replaced. */
  onRootsMoved(bundle: TrustBundle, { added, givenUp }: Pick<Learned, 'added' | 'givenUp'>): void {
    if (added.length > 0) this.retryFailing(bundle.trustDomain)
    if (givenUp.length > 0) this.#replaceInTurn(bundle, root => givenUp.includes(root.fingerprint))
  }

  /**
   * Leaves under this root may be served. Those that wait for it are; without one, the first identity asks whether the CA
   * signs under it yet.
   */
  onTrusted(bundle: TrustBundle, fingerprint: string): void {
    // The CA has changed its mind meanwhile.
    if (bundle.isGivenUp(fingerprint)) return
    const waiting = this.#membersOf(bundle).filter(({ served }) => served.waiting?.root.fingerprint === fingerprint)
    for (const { served } of waiting) served.hasten(served.waiting?.secret.notBefore ?? 0)
    // A root of one identity comes with its certificate; one that the operator lists says nothing of the CA.
    if (bundle.owner || !bundle.isNamed(fingerprint)) return
    if (waiting.length > 0) this.#follow(bundle, fingerprint)
    else {
      const learnedAt = bundle.anchor(fingerprint)?.learnedAt ?? 0
      const [first] = this.#inTurn(bundle, root => root.learnedAt < learnedAt)
      if (first) this.#bringForward(first, this.#clock.now(), 'new-root')
    }
    this.#replaceInTurn(bundle, root => bundle.isGivenUp(root.fingerprint))
  }

  /** Resolves when no request is in flight. Every identity has to be stopped before. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#keyDemand[Symbol.dispose]()
    this.#throttle[Symbol.dispose]()
    await Promise.all([...this.#inFlight, this.#restoring?.settled()])
  }

  #wait(managed: ManagedIdentity, due: number, reason: Reason): void {
    managed.wait(due, () => {
      const first = reason === 'on-demand' ? reason : 'first'
      const urgency = managed.served.current ? 'renewal' : first
      this.#enqueue(managed, reason, managed.hasFailedAlone ? 'retry' : urgency)
    })
  }

  #enqueue(
    managed: ManagedIdentity,
    reason: Reason,
    urgency: Urgency = reason === 'new-root' ? 'renewal' : reason,
  ): void {
    if (urgency === 'on-demand' || urgency === 'first') this.#keyDemand.rose()
    managed.queue(reason)
    // Identities that have failed take turns: one that the CA never answers must not come first each time.
    const deadline = urgency === 'retry' ? undefined : managed.served.current?.secret.notAfter
    this.#throttle.push(managed, urgency, deadline)
  }

  async #track(fetch: Promise<void>): Promise<void> {
    this.#inFlight.add(fetch)
    await fetch
    this.#inFlight.delete(fetch)
  }

  async #fetch(managed: ManagedIdentity): Promise<void> {
    if (managed.activity.kind !== 'queued') return
    const { identity, tokenFile } = managed
    const startedAt = this.#clock.now()
    this.#options.record(identity, { kind: 'csr-sent', reason: managed.activity.reason })
    const controller = managed.startFetching()
    try {
      const issued = await issue(this.#options.issuance, {
        identity,
        ttlSeconds: this.#ttl.of(identity),
        ...(tokenFile === undefined ? {} : { tokenFile }),
        phase: renewalPhase(managed.phase, this.#options.random()),
        trustStore: this.#options.trust,
        controller,
      })
      this.#throttle.succeeded(startedAt)
      this.#ttl.accepted(identity)
      // Only the request that is still the current one may change anything: forgetting wins over a late answer.
      if (managed.isFetching(controller)) this.#accept(managed, issued, startedAt)
      else this.#discard(managed, issued)
    } catch (error) {
      if (!managed.isFetching(controller)) return
      const failure = asShownCAError(error)
      if (managed.isFailing && (managed.lastFailure?.at ?? 0) <= this.#throttle.lastAnswerAt) managed.failsAlone()
      const { isAlone } = managed
      if (!this.#waitsForApproval(managed)) this.#throttle.failed(managed, failure, { startedAt, isAlone })
      this.#fail(managed, failure)
    }
  }

  /** Nobody waits for it now. */
  #discard({ identity }: ManagedIdentity, issued: Issued | undefined): void {
    issued?.release()
    if (!this.#options.identities.has(identity)) this.#options.trust.forgetOwn(identity)
  }

  #accept(managed: ManagedIdentity, issued: Issued, startedAt: number): void {
    const now = this.#clock.now()
    const { secret, root } = issued
    const inUse = managed.served.current
    const mayServe = this.#options.trust.mayServe(managed.identity, root.fingerprint)
    // Old before new only while the old one lives; without one, a root that not every peer knows yet is the lesser evil.
    const announced = inUse && !mayServe ? latestChange({ ...inUse, notAfter: inUse.secret.notAfter }, now) : now
    const from = Math.max(secret.notBefore, announced)
    const usableFrom = Math.max(now, secret.notBefore)
    const planned = renewalTime({ usableFrom, notAfter: secret.notAfter }, this.#options.rotation, issued.phase)
    const renewAt = this.#isSuperseded(managed, issued, startedAt)
      ? Math.min(planned, this.#followTime(managed))
      : planned

    managed.succeeded()
    const { serialNumber, notAfter } = secret
    this.#options.record(managed.identity, { kind: 'issued', serialNumber, notAfter, renewAt })
    if (from > now) {
      const reason = secret.notBefore > now ? 'not-yet-valid' : 'root-announcing'
      const until = reason === 'root-announcing' ? Math.min(Math.max(root.settlesAt, now), from) : from
      this.#options.record(managed.identity, { kind: 'held', until, reason })
    }
    this.#wait(managed, Math.max(renewAt, now + MIN_RENEWAL_INTERVAL_MS), 'renewal')
    managed.served.offer(issued, from)
    if (inUse && mayServe && root.learnedAt > inUse.root.learnedAt) this.#followLeaf(managed, root)
  }

  #onRestored(managed: ManagedIdentity, issued: Restored | undefined): void {
    const { activity } = managed
    if (activity.kind !== 'restoring') this.#discard(managed, issued)
    else if (!issued) this.#enqueue(managed, activity.urgency)
    else {
      this.#acceptRestored(managed, issued)
      if (issued.isProvisional) this.#enqueue(managed, 'first')
      else if (activity.isOutdated) this.#bringForward(managed, this.#followTime(managed), 'renewal')
    }
  }

  /** It is renewed when it would have been without the restart; what fell due meanwhile soon, but spread out. */
  #acceptRestored(managed: ManagedIdentity, issued: Restored): void {
    const now = this.#clock.now()
    const { source, receivedAt, phase, isProvisional } = issued
    const { serialNumber, notBefore, notAfter } = issued.secret
    const usableFrom = Math.max(receivedAt, notBefore)
    const planned = renewalTime({ usableFrom, notAfter }, this.#options.rotation, phase)
    managed.served.offer(issued, notBefore)
    const due = planned > now ? planned : overdueTime({ now, notAfter }, managed.phase)
    const spread = this.#isSuperseded(managed, issued, receivedAt) ? Math.min(due, this.#followTime(managed)) : due
    const renewAt = isProvisional ? now : spread
    if (source === 'store') managed.resumed(receivedAt)
    this.#options.record(managed.identity, { kind: 'restored', from: source, serialNumber, notAfter, renewAt })
    this.#wait(managed, renewAt, 'renewal')
  }

  /** While somebody takes their time to approve it: that says nothing of the CA. */
  #waitsForApproval({ identity }: ManagedIdentity): boolean {
    return this.#options.issuance.pending.has(identity)
  }

  #fail(managed: ManagedIdentity, failure: CAError): void {
    const { record } = this.#options
    const now = this.#clock.now()
    const { nextProbeAt } = this.#throttle
    if (nextProbeAt !== undefined && isAbsence(failure)) {
      this.#failInOutage(managed, failure, nextProbeAt)
      return
    }
    const delay = failure.code === 'rate-limited' ? this.#throttle.pausedUntil - now : this.#backoff(managed, failure)
    const { code, message } = failure
    managed.failed(failure)
    record(managed.identity, { kind: 'ca-error', code, message })
    this.#retryAfter(managed, delay)
  }

  #retryAfter(managed: ManagedIdentity, delay: number): void {
    const { retry, record } = this.#options
    const notAfter = managed.served.current?.secret.notAfter
    const due = retryTime({ now: this.#clock.now(), notAfter }, delay, retry.minMs)
    record(managed.identity, { kind: 'retry-planned', at: due })
    this.#wait(managed, due, managed.served.current ? 'renewal' : 'first')
  }

  /** A CA without room says nothing of this identity: with the others it comes back when the pause ends. */
  #backoff(managed: ManagedIdentity, failure: CAError): number {
    const { retry, random } = this.#options
    const mayPass = failure.retryable || (failure.code === 'ttl-too-long' && this.#lowerTtl(managed))
    const own = mayPass ? this.#ownBackoff(managed) : backoff(Number.MAX_SAFE_INTEGER, retry, random())
    return Math.max(own, this.#throttle.requestedWait(failure) ?? 0)
  }

  /** `false` where the CA refuses even the shortest lifetime. */
  #lowerTtl({ identity }: ManagedIdentity): boolean {
    const { record, trust } = this.#options
    const fromSeconds = this.#ttl.of(identity)
    const toSeconds = this.#ttl.lower(identity)
    if (toSeconds === undefined) return false
    if (toSeconds < this.#lowestTtlReported) {
      this.#lowestTtlReported = toSeconds
      record(`spiffe://${trust.trustDomain}`, { kind: 'ttl-lowered', fromSeconds, toSeconds })
    }
    return true
  }

  #ownBackoff(managed: ManagedIdentity): number {
    return backoff(managed.countFailure(), this.#options.retry, this.#options.random())
  }

  /** It waits with the others for the CA, behind those that have not probed it yet: one that always fails must not come first each time. */
  #failInOutage(managed: ManagedIdentity, failure: CAError, nextProbeAt: number): void {
    const { code, message } = failure
    managed.failed(failure)
    this.#options.record(managed.identity, { kind: 'ca-error', code, message })
    this.#options.record(managed.identity, { kind: 'retry-planned', at: nextProbeAt })
    this.#enqueue(managed, managed.served.current ? 'renewal' : 'first', 'retry')
  }

  /** The least time that an identity which waits for the CA has left of its certificate; 0 for one without. */
  #leastLeft(): number {
    let least = Number.POSITIVE_INFINITY
    for (const { activity, isFailing, served } of this.#options.identities.values())
      if (isFailing || activity.kind === 'queued')
        least = Math.min(least, served.current?.secret.notAfter ?? Number.NEGATIVE_INFINITY)
    return Math.max(least - this.#clock.now(), 0)
  }

  /** Without it each identity that failed meanwhile would wait out its own backoff. */
  #onCABack(downSince: number): void {
    this.#reportOutage({ kind: 'ca-back', downSince })
    const all = [...this.#options.identities.values()]
    const waiting = all.filter(managed => isHeldUp(managed, downSince))
    // All of them leave the queue before the first one is in it again: those in front start at once.
    for (const managed of waiting) this.#throttle.delete(managed)
    const isUsed = ({ identity }: ManagedIdentity) => this.#options.isUsed(identity)
    for (const managed of waiting.filter(isUsed)) this.#wake(managed, true)
    for (const managed of waiting.filter(managed => !isUsed(managed))) this.#wake(managed, false)
    for (const managed of all) this.#giveUpIfHanging(managed)
    void this.#track(this.#options.trust.refresh())
  }

  /** Without a certificate at once, as fast as the CA takes them; with one while it lasts; one that fails alone after its backoff. */
  #wake(managed: ManagedIdentity, isUsed: boolean): void {
    const { activity, served } = managed
    const reason = isUsed ? 'on-demand' : 'first'
    if (managed.isAlone) {
      if (activity.kind === 'queued') this.#retryAfter(managed, this.#ownBackoff(managed))
      return
    }
    managed.forgetFailures()
    if (!served.current) {
      this.#enqueue(managed, reason, managed.hasFailedAlone ? 'retry' : reason)
      return
    }
    const woken = this.#wakeTime(managed)
    this.#wait(managed, activity.kind === 'waiting' ? Math.min(activity.due, woken) : woken, 'renewal')
  }

  #wakeTime({ phase, served, identity }: ManagedIdentity): number {
    const now = this.#clock.now()
    const notAfter = served.current?.secret.notAfter ?? now
    return wakeTime({ now, notAfter }, phase, this.#options.isUsed(identity))
  }

  /** Its connection may be dead: the CA answers others. */
  #giveUpIfHanging(managed: ManagedIdentity): void {
    const { activity, identity } = managed
    if (activity.kind !== 'fetching' || this.#waitsForApproval(managed)) return
    if (this.#clock.now() - activity.since < HANGING_MS) return
    activity.controller.abort(
      new CAError('timeout', `The CA did not answer for ${identity}, and answered others meanwhile`),
    )
  }

  #reportOutage(event: Extract<SecretEvent, { kind: 'ca-down' | 'ca-back' }>): void {
    this.#options.record(`spiffe://${this.#options.trust.trustDomain}`, event)
  }

  /** Brings a planned request forward; one that is due earlier anyway stays so. */
  #bringForward(managed: ManagedIdentity, due: number, reason: Reason): void {
    if (managed.activity.kind !== 'waiting' || due >= managed.activity.due) return
    this.#wait(managed, due, reason)
    this.#keyDemand.rose()
  }

  /** Whether the roots moved on while this certificate was under way. */
  #isSuperseded({ identity }: ManagedIdentity, { root }: Issued, startedAt: number): boolean {
    const { trust } = this.#options
    // A file that has roots of one identity says when it has changed.
    if (trust.ownBundle(identity)?.anchor(root.fingerprint)) return false
    const bundle = trust.bundle(trustDomainOf(identity))
    if (!bundle || bundle.isGivenUp(root.fingerprint)) return true
    return bundle.isSuperseded(root.fingerprint, startedAt)
  }

  /** The first leaf under a newer root shows that the CA signs under it. */
  #followLeaf({ identity }: ManagedIdentity, root: TrustAnchor): void {
    const bundle = this.#options.trust.bundle(trustDomainOf(identity))
    if (bundle?.anchor(root.fingerprint)) this.#follow(bundle, root.fingerprint)
  }

  /** Once for each root: a CA that signs under two in turns would otherwise have everything renewed again and again. */
  #follow(bundle: TrustBundle, fingerprint: string): void {
    const learnedAt = bundle.anchor(fingerprint)?.learnedAt ?? 0
    if (this.#options.trust.follow(bundle, fingerprint)) this.#replaceInTurn(bundle, root => root.learnedAt < learnedAt)
  }

  /** Brings the renewals of leaves forward whose root `isOld`, spread out. */
  #replaceInTurn(bundle: TrustBundle, isOld: (root: TrustAnchor) => boolean): void {
    const all = this.#inTurn(bundle, isOld)
    const now = this.#clock.now()
    for (const [index, managed] of all.entries()) {
      const notAfter = managed.served.current?.secret.notAfter ?? now
      this.#bringForward(managed, turnTime({ now, notAfter }, index / all.length), 'new-root')
    }
  }

  /** Identities whose newest leaf is under a root that `isOld`: streamed ones first, each kind by what is left. */
  #inTurn(bundle: TrustBundle, isOld: (root: TrustAnchor) => boolean): ManagedIdentity[] {
    const old = this.#membersOf(bundle).flatMap(managed => {
      const { newest } = managed.served
      if (!newest || !isOld(newest.root) || managed.activity.kind !== 'waiting') return []
      return [{ managed, isUsed: this.#options.isUsed(managed.identity), notAfter: newest.secret.notAfter }]
    })
    old.sort((a, b) => Number(b.isUsed) - Number(a.isUsed) || a.notAfter - b.notAfter)
    return old.map(({ managed }) => managed)
  }

  /** The identities whose leaves are verified with this bundle. */
  #membersOf({ owner, trustDomain }: TrustBundle): ManagedIdentity[] {
    const { identities, trust } = this.#options
    const own = owner && identities.get(owner)
    if (owner) return own ? [own] : []
    return [...identities.values()].filter(
      ({ identity, served }) =>
        trustDomainOf(identity) === trustDomain &&
        !trust.ownBundle(identity)?.anchor(served.newest?.root.fingerprint ?? ''),
    )
  }

  #followTime({ phase, served }: ManagedIdentity): number {
    const now = this.#clock.now()
    return followTime({ now, notAfter: served.current?.secret.notAfter ?? now }, this.#options.rotation.settleMs, phase)
  }

  #countDue(until: number): number {
    let count = 0
    for (const { activity } of this.#options.identities.values()) {
      if (activity.kind === 'queued' || (activity.kind === 'waiting' && activity.due <= until)) count++
    }
    return count
  }
}

/** Whether it waits for the CA: in the queue, or for the end of its backoff. A renewal that just fell due is in its place in the queue. */
function isHeldUp({ activity, isFailing, lastFailure, served }: ManagedIdentity, downSince: number): boolean {
  if (activity.kind === 'queued') return isFailing || served.current === undefined
  if (activity.kind !== 'waiting' || !isFailing || lastFailure === undefined) return false
  return lastFailure.at >= downSince && isAbsence(lastFailure)
}

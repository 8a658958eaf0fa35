/** Failures that many identities share though there is a CA: one of them is tried every few seconds, and its success ends the wait of all. */

import type { CAError } from '../contract/ca-client.ts'
import { type FailureKind, failureKind } from '../contract/ca-failure.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { ManagedIdentity } from '../identity/managed-identity.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { RetryPolicy } from '../time/backoff.ts'
import type { Clock } from '../time/clock.ts'
import { after } from '../time/deadline.ts'
import type { CAThrottle, SentRequest } from './ca-throttle.ts'
import type { RequestPlan } from './request-plan.ts'
import { SharedFault } from './shared-fault.ts'

export interface SharedRefusalsOptions {
  readonly clock: Clock
  readonly random: () => number
  readonly retry: RetryPolicy
  readonly throttle: Pick<CAThrottle<ManagedIdentity>, 'probePause' | 'pausedUntil' | 'requestedWait'>
  readonly plan: RequestPlan
  /** Every identity that is held. */
  readonly identities: ReadonlyMap<SpiffeId, ManagedIdentity>
  /** Whether somebody streams it. */
  readonly isUsed: (identity: SpiffeId) => boolean
  /** See {@link FailedRequest.leastLeftMs}. */
  readonly leastLeftMs: () => number
  /** Ends the waits of identities whose cause is gone, those first that come first. */
  readonly wake: (managed: readonly ManagedIdentity[]) => void
  readonly report: (event: SecretEvent) => void
}

/** A CA that has no room, and does not say for how long, is asked no sooner. */
const LEAST_WITHOUT_ROOM_MS = 1_600

interface Shared {
  readonly fault: SharedFault
  /** Somebody has failed so since the last wake. */
  hasSleepers: boolean
  /** The last probe was for one that has no certificate: the next one takes its turn among all. */
  wasUrgent: boolean
  /** The next probe is for it: somebody waits. */
  waitedFor: ManagedIdentity | undefined
  timer: Disposable | undefined
}

export class SharedRefusals implements Disposable {
  readonly #options: SharedRefusalsOptions
  /** No more than there are codes. */
  readonly #shared = new Map<FailureKind, Shared>()
  #lastCertificateAskedAt = Number.NEGATIVE_INFINITY

  constructor(options: SharedRefusalsOptions) {
    this.#options = options
  }

  /** When the newest certificate was asked for, milliseconds since the epoch. */
  get lastCertificateAskedAt(): number {
    return this.#lastCertificateAskedAt
  }

  /** A request of `managed` was refused, or could not be made. Whether it shares the cause with many. */
  failed(managed: ManagedIdentity, failure: CAError, sent: SentRequest): boolean {
    const { clock, random, throttle, leastLeftMs, report } = this.#options
    const kind = failureKind(failure)
    const shared = this.#sharedOf(kind)
    shared.hasSleepers = true
    const request = { of: managed, isAlone: managed.isAlone, startedAt: sent.at, now: clock.now() }
    const opens = shared.fault.failed({
      ...request,
      leastLeftMs,
      requestedWaitMs: kind === 'rate-limited' ? this.#waitForRoom(failure) : (throttle.requestedWait(failure) ?? 0),
      random: random(),
    })
    if (opens) report({ kind: 'shared-failure', failure: kind })
    this.#arm(kind, shared)
    return shared.fault.since !== undefined && !managed.isAlone
  }

  /** A request of `managed`, which was failing with `kind` before if it was failing, had its certificate. */
  succeeded(managed: ManagedIdentity, kind: FailureKind | undefined, sent: SentRequest): void {
    const { clock, identities, report } = this.#options
    this.#lastCertificateAskedAt = Math.max(this.#lastCertificateAskedAt, sent.at)
    const woken: ManagedIdentity[] = []
    for (const [each, shared] of this.#shared) {
      const since = shared.fault.contradicted(sent.at, clock.now())
      if (since !== undefined) report({ kind: 'shared-failure-over', failure: each, since })
      if (!shared.hasSleepers || (since === undefined && each !== kind)) continue
      shared.hasSleepers = false
      this.#arm(each, shared)
      for (const other of identities.values())
        if (other.failingWith === each && this.#mayWake(other))
          if (since !== undefined || other.tokenFile === managed.tokenFile) woken.push(other)
    }
    if (woken.length > 0) this.#options.wake(woken)
  }

  /** Somebody waits for `managed`. Whether that is soon the probe of a cause that it shares. */
  hurry(managed: ManagedIdentity): boolean {
    const { failingWith: kind, isAlone } = managed
    const shared = kind && this.#shared.get(kind)
    if (!kind || !shared || shared.fault.since === undefined || isAlone) return false
    shared.fault.hurry(this.#options.clock.now())
    shared.waitedFor = managed
    this.#arm(kind, shared)
    return true
  }

  clockJumped(): void {
    const now = this.#options.clock.now()
    this.#lastCertificateAskedAt = Math.min(this.#lastCertificateAskedAt, now)
    for (const [kind, shared] of this.#shared) {
      shared.fault.clockJumped(now)
      this.#arm(kind, shared)
    }
  }

  [Symbol.dispose](): void {
    for (const { timer } of this.#shared.values()) timer?.[Symbol.dispose]()
    this.#shared.clear()
  }

  #sharedOf(kind: FailureKind): Shared {
    const present = this.#shared.get(kind)
    if (present) return present
    const fault = new SharedFault('refusals')
    const shared = { fault, hasSleepers: false, wasUrgent: false, waitedFor: undefined, timer: undefined }
    this.#shared.set(kind, shared)
    return shared
  }

  #waitForRoom(failure: CAError): number {
    const { clock, throttle } = this.#options
    return throttle.requestedWait(failure) === undefined ? LEAST_WITHOUT_ROOM_MS : throttle.pausedUntil - clock.now()
  }

  /** One that fails alone would double what it asks of the CA, and no more. */
  #mayWake({ activity, isAlone, wokenAt }: ManagedIdentity): boolean {
    const { clock, retry } = this.#options
    return activity.kind === 'waiting' && (!isAlone || Math.abs(clock.now() - wokenAt) >= retry.maxMs)
  }

  #arm(kind: FailureKind, shared: Shared): void {
    const { clock } = this.#options
    const { nextProbeAt } = shared.fault
    shared.timer?.[Symbol.dispose]()
    shared.timer =
      nextProbeAt === undefined ? undefined : after(clock, nextProbeAt - clock.now(), () => this.#probe(kind, shared))
  }

  #probe(kind: FailureKind, shared: Shared): void {
    const { clock, throttle, plan, isUsed } = this.#options
    const { waitedFor } = shared
    shared.waitedFor = undefined
    const next = waitedFor && canProbe(waitedFor, kind) ? waitedFor : this.#next(kind, !shared.wasUrgent)
    // A minute's certificates and their identities may have gone meanwhile.
    if (!next) {
      this.#shared.delete(kind)
      return
    }
    shared.fault.started(clock.now(), next)
    this.#arm(kind, shared)
    shared.wasUrgent = next.served.current === undefined
    if (next.served.current) plan.enqueue(next, 'renewal')
    else plan.enqueue(next, isUsed(next.identity) ? 'on-demand' : 'first')
    if (kind === 'rate-limited') throttle.probePause()
  }

  /** In turn; those without a certificate before the others if `isUrgent`. */
  #next(kind: FailureKind, isUrgent: boolean): ManagedIdentity | undefined {
    let next: ManagedIdentity | undefined
    for (const managed of this.#options.identities.values()) {
      if (canProbe(managed, kind) && (!next || isBefore(managed, next, isUrgent))) next = managed
    }
    return next
  }
}

function canProbe({ failingWith, isAlone, activity }: ManagedIdentity, kind: FailureKind): boolean {
  return failingWith === kind && !isAlone && activity.kind === 'waiting'
}

function isBefore(one: ManagedIdentity, other: ManagedIdentity, isUrgent: boolean): boolean {
  const [mine, theirs] = [one.served.current === undefined, other.served.current === undefined]
  if (isUrgent && mine !== theirs) return mine
  return (one.lastFailure?.at ?? 0) < (other.lastFailure?.at ?? 0)
}

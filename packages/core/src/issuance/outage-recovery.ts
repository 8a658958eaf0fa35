/** The order in which identities ask the CA again after an outage, or when the cause of failures has perhaps passed: soon, and not all at once. */

import { CAError } from '../contract/ca-client.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { ManagedIdentity } from '../identity/managed-identity.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { RetryPolicy } from '../time/backoff.ts'
import type { Clock } from '../time/clock.ts'
import type { TrustStore } from '../trust/trust-store.ts'
import type { CAThrottle } from './ca-throttle.ts'
import { wakeTime } from './renewal-time.ts'
import type { RequestPlan } from './request-plan.ts'
import { HANGING_MS } from './shared-fault.ts'

export interface OutageRecoveryOptions {
  readonly clock: Clock
  readonly retry: RetryPolicy
  readonly throttle: Pick<CAThrottle<ManagedIdentity>, 'delete' | 'hurry'>
  readonly plan: RequestPlan
  readonly trust: Pick<TrustStore, 'trustDomain'>
  /** Every identity that is held. */
  readonly identities: ReadonlyMap<SpiffeId, ManagedIdentity>
  /** Whether somebody streams it. */
  readonly isUsed: (identity: SpiffeId) => boolean
  readonly waitsForApproval: (managed: ManagedIdentity) => boolean
  readonly refreshRoots: () => void
  readonly record: (name: string, event: SecretEvent) => void
}

export class OutageRecovery {
  readonly #options: OutageRecoveryOptions

  constructor(options: OutageRecoveryOptions) {
    this.#options = options
  }

  /** The least time that an identity which waits for the CA has left of its certificate; 0 for one without. */
  leastLeftMs(): number {
    let least = Number.POSITIVE_INFINITY
    for (const { activity, isFailing, served } of this.#options.identities.values())
      if (isFailing || activity.kind === 'queued')
        least = Math.min(least, served.current?.secret.notAfter ?? Number.NEGATIVE_INFINITY)
    return Math.max(least - this.#options.clock.now(), 0)
  }

  /** The CA as a whole does not answer. */
  onDown(): void {
    this.#report({ kind: 'ca-down' })
  }

  /** Without it each identity that failed meanwhile would wait out its own backoff. */
  onBack(downSince: number): void {
    const { identities, throttle, refreshRoots } = this.#options
    this.#report({ kind: 'ca-back', downSince })
    const all = [...identities.values()]
    const waiting = all.filter(managed => isHeldUp(managed, downSince))
    // All of them leave the queue before the first one is in it again: those in front start at once.
    for (const managed of waiting) throttle.delete(managed)
    for (const managed of this.#usedFirst(waiting)) this.#onCABack(managed)
    for (const managed of all) this.#giveUpIfHanging(managed)
    refreshRoots()
  }

  /** The cause that these identities seemed to share is gone. */
  wake(refused: readonly ManagedIdentity[]): void {
    const { plan } = this.#options
    for (const managed of this.#usedFirst(refused)) {
      managed.wake()
      if (managed.served.current) plan.bringForward(managed, this.#wakeTime(managed), 'renewal')
      else plan.enqueue(managed, this.#reason(managed), managed.isAlone ? 'retry' : this.#reason(managed))
    }
  }

  /** The cause may be gone: something changed for all identities, or for those of a trust domain. */
  retryFailing(trustDomain?: string): void {
    const { plan, throttle, identities, clock, retry } = this.#options
    for (const managed of identities.values()) {
      const { isFailing, lastFailure, identity } = managed
      if (!isFailing || !lastFailure || (trustDomain !== undefined && trustDomainOf(identity) !== trustDomain)) continue
      const due = Math.max(this.#wakeTime(managed), Math.min(lastFailure.at, clock.now()) + retry.minMs)
      plan.bringForward(managed, due, managed.served.current ? 'renewal' : 'first')
    }
    throttle.hurry()
  }

  /** Without a certificate at once, as fast as the CA takes them; with one while it lasts; one that fails alone after its backoff. */
  #onCABack(managed: ManagedIdentity): void {
    const { plan } = this.#options
    const { activity, served } = managed
    const reason = this.#reason(managed)
    if (managed.isAlone) {
      if (activity.kind === 'queued') plan.retryAfter(managed, plan.ownBackoff(managed))
      return
    }
    managed.forgetFailures()
    if (!served.current) {
      plan.enqueue(managed, reason, managed.hasFailedAlone ? 'retry' : reason)
      return
    }
    const woken = this.#wakeTime(managed)
    plan.wait(managed, activity.kind === 'waiting' ? Math.min(activity.due, woken) : woken, 'renewal')
  }

  #usedFirst(identities: readonly ManagedIdentity[]): readonly ManagedIdentity[] {
    const isUsed = ({ identity }: ManagedIdentity) => this.#options.isUsed(identity)
    return [...identities.filter(isUsed), ...identities.filter(managed => !isUsed(managed))]
  }

  #reason({ identity }: ManagedIdentity): 'on-demand' | 'first' {
    return this.#options.isUsed(identity) ? 'on-demand' : 'first'
  }

  #wakeTime({ phase, served, identity }: ManagedIdentity): number {
    const now = this.#options.clock.now()
    const notAfter = served.current?.secret.notAfter ?? now
    return wakeTime({ now, notAfter }, phase, this.#options.isUsed(identity))
  }

  /** Its connection may be dead: the CA answers others. */
  #giveUpIfHanging(managed: ManagedIdentity): void {
    const { activity, identity } = managed
    if (activity.kind !== 'fetching' || this.#options.waitsForApproval(managed)) return
    if (this.#options.clock.now() - activity.since < HANGING_MS) return
    activity.controller.abort(
      new CAError('timeout', `The CA did not answer for ${identity}, and answered others meanwhile`),
    )
  }

  #report(event: Extract<SecretEvent, { kind: 'ca-down' | 'ca-back' }>): void {
    this.#options.record(`spiffe://${this.#options.trust.trustDomain}`, event)
  }
}

/** Whether it waits for the CA: in the queue, or for the end of its backoff. A renewal that just fell due is in its place in the queue. */
function isHeldUp(
  { activity, isFailing, lastFailure, failingWith, served }: ManagedIdentity,
  downSince: number,
): boolean {
  if (activity.kind === 'queued') return isFailing || served.current === undefined
  if (activity.kind !== 'waiting' || lastFailure === undefined) return false
  return lastFailure.at >= downSince && failingWith === 'absence'
}

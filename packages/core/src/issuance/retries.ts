/** When a request that failed is made again: after its backoff, when the CA asks for it, or when the CA is back. */

import type { CAError } from '../contract/ca-client.ts'
import { isAbsence } from '../contract/ca-failure.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { ManagedIdentity } from '../identity/managed-identity.ts'
import { backoff, type RetryPolicy } from '../time/backoff.ts'
import type { Clock } from '../time/clock.ts'
import type { TrustStore } from '../trust/trust-store.ts'
import type { CAThrottle, SentRequest } from './ca-throttle.ts'
import type { RequestPlan } from './request-plan.ts'
import type { SharedRefusals } from './shared-refusals.ts'
import type { TtlWishes } from './ttl-wishes.ts'

export interface RetriesOptions {
  readonly clock: Clock
  readonly random: () => number
  readonly retry: RetryPolicy
  readonly throttle: CAThrottle<ManagedIdentity>
  readonly refusals: SharedRefusals
  readonly plan: RequestPlan
  readonly ttl: TtlWishes
  readonly trust: Pick<TrustStore, 'trustDomain'>
  readonly waitsForApproval: (managed: ManagedIdentity) => boolean
  readonly record: (name: string, event: SecretEvent) => void
}

export class Retries {
  readonly #options: RetriesOptions
  /** Each is reported once, not by each identity. */
  #lowestTtlReported = Number.POSITIVE_INFINITY

  constructor(options: RetriesOptions) {
    this.#options = options
  }

  /** The request of an identity failed: plans the next one. */
  failed(managed: ManagedIdentity, failure: CAError, sent: SentRequest): void {
    const { throttle, refusals, plan } = this.#options
    const { at = 0 } = managed.lastFailure ?? {}
    const isContradicted = isAbsence(failure) ? at <= throttle.lastAnswerAt : at < refusals.lastCertificateAskedAt
    if (managed.isFailing && isContradicted) managed.contradicted(failure)
    const { isAlone } = managed
    if (!this.#options.waitsForApproval(managed)) throttle.failed(managed, failure, { sent, isAlone })
    const { nextProbeAt } = throttle
    if (nextProbeAt !== undefined && isAbsence(failure)) {
      this.#waitForCA(managed, failure, nextProbeAt)
      return
    }
    const delay = this.#delay(managed, failure, sent)
    this.#report(managed, failure)
    plan.retryAfter(managed, delay)
  }

  /** Milliseconds. A CA without room says nothing of this identity: with the others it comes back when the pause ends. */
  #delay(managed: ManagedIdentity, failure: CAError, sent: SentRequest): number {
    const { clock, throttle, refusals, plan, waitsForApproval } = this.#options
    if (failure.code === 'ttl-too-long' && this.#lowerTtl(managed)) return plan.ownBackoff(managed)
    // Probes find the end of a cause that many share.
    const isShared = !isAbsence(failure) && !waitsForApproval(managed) && refusals.failed(managed, failure, sent)
    if (failure.code === 'rate-limited' && !failure.local) return throttle.pausedUntil - clock.now()
    const own = failure.retryable && !isShared ? this.#backoff(managed, failure) : this.#longest()
    return Math.max(own, throttle.requestedWait(failure) ?? 0)
  }

  #backoff(managed: ManagedIdentity, { code, local }: CAError): number {
    const isNew = code === 'unauthenticated' && !local && managed.lastSuccessAt === undefined
    return this.#options.plan.ownBackoff(managed, isNew)
  }

  #longest(): number {
    const { retry, random } = this.#options
    return backoff(Number.MAX_SAFE_INTEGER, retry, random())
  }

  /** `false` where the CA refuses even the shortest lifetime. */
  #lowerTtl({ identity }: ManagedIdentity): boolean {
    const { ttl, trust, record } = this.#options
    const fromSeconds = ttl.of(identity)
    const toSeconds = ttl.lower(identity)
    if (toSeconds === undefined) return false
    if (toSeconds < this.#lowestTtlReported) {
      this.#lowestTtlReported = toSeconds
      record(`spiffe://${trust.trustDomain}`, { kind: 'ttl-lowered', fromSeconds, toSeconds })
    }
    return true
  }

  /** Behind those that have not probed the CA yet: an identity that always fails must not come first each time. */
  #waitForCA(managed: ManagedIdentity, failure: CAError, nextProbeAt: number): void {
    const { plan, record } = this.#options
    this.#report(managed, failure)
    record(managed.identity, { kind: 'retry-planned', at: nextProbeAt })
    plan.enqueue(managed, managed.served.current ? 'renewal' : 'first', 'retry')
  }

  #report(managed: ManagedIdentity, failure: CAError): void {
    const { code, message, local } = failure
    managed.failed(failure)
    this.#options.record(managed.identity, { kind: 'ca-error', code, message, ...(local && { local }) })
  }
}

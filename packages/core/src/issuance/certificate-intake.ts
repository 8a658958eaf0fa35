/** Takes in certificates, from the CA and from the store: from when each is served, and when it is renewed. */

import type { SecretEvent } from '../contract/secret-event.ts'
import type { Issued } from '../identity/issued-certificate.ts'
import type { ManagedIdentity } from '../identity/managed-identity.ts'
import { trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import type { TrustStore } from '../trust/trust-store.ts'
import type { LeafRollout } from './leaf-rollout.ts'
import {
  followTime,
  latestChange,
  MIN_RENEWAL_INTERVAL_MS,
  type RotationPolicy,
  renewalTime,
  turnTime,
} from './renewal-time.ts'
import type { RequestPlan } from './request-plan.ts'
import type { Restored } from './restoration.ts'

export interface CertificateIntakeOptions {
  readonly clock: Clock
  readonly rotation: RotationPolicy & { readonly settleMs: number }
  readonly trust: TrustStore
  readonly rollout: LeafRollout
  readonly plan: RequestPlan
  readonly record: (name: string, event: SecretEvent) => void
}

export class CertificateIntake {
  readonly #options: CertificateIntakeOptions

  constructor(options: CertificateIntakeOptions) {
    this.#options = options
  }

  /** The answer to a request that was sent at `startedAt`. */
  accept(managed: ManagedIdentity, issued: Issued, startedAt: number): void {
    const { clock, rotation, rollout, plan, record } = this.#options
    const now = clock.now()
    const { secret } = issued
    const before = managed.served.current
    const inUse = managed.worthKeeping
    const isAdmitted = rollout.admit(managed, issued)
    // Old before new only while the old one lives; without one, a root that not every peer knows yet is the lesser evil.
    const announced = inUse && !isAdmitted ? latestChange({ ...inUse, notAfter: inUse.secret.notAfter }, now) : now
    const from = Math.max(secret.notBefore, announced)
    const usableFrom = Math.max(now, secret.notBefore)
    const planned = renewalTime({ usableFrom, notAfter: secret.notAfter }, rotation, issued.phase)
    const renewAt = this.#isSuperseded(managed, issued, startedAt)
      ? Math.min(planned, this.followTime(managed))
      : planned

    const { serialNumber, notAfter } = secret
    record(managed.identity, { kind: 'issued', serialNumber, notAfter, renewAt })
    if (from > now) this.#reportHeld(managed, issued, from)
    const servedUntil = Math.max(inUse?.secret.notAfter ?? now, now + MIN_RENEWAL_INTERVAL_MS)
    if (from > servedUntil) {
      this.#acceptTooLate(managed, issued, from)
      return
    }
    managed.succeeded()
    plan.wait(managed, Math.max(renewAt, now + MIN_RENEWAL_INTERVAL_MS), 'renewal')
    managed.served.offer(issued, from)
    if (before && isAdmitted) rollout.served(managed, issued, before.root)
  }

  /** It begins after the one in use ends: the clock of the CA, or of the replica that answered, is ahead. Another may not be. */
  #acceptTooLate(managed: ManagedIdentity, issued: Issued, from: number): void {
    const { plan } = this.#options
    const { waiting } = managed.served
    if (waiting && waiting.secret.notBefore <= from) issued.release()
    else managed.served.offer(issued, from)
    plan.retryAfter(managed, plan.ownBackoff(managed))
  }

  /** It is renewed when it would have been without the restart; what fell due meanwhile soon, but spread out. */
  acceptRestored(managed: ManagedIdentity, issued: Restored): void {
    const { clock, rotation, plan, record } = this.#options
    const now = clock.now()
    const { source, receivedAt, phase, isProvisional } = issued
    const { serialNumber, notBefore, notAfter } = issued.secret
    const usableFrom = Math.max(receivedAt, notBefore)
    const planned = renewalTime({ usableFrom, notAfter }, rotation, phase)
    managed.served.offer(issued, notBefore)
    const due = planned > now ? planned : turnTime({ now, notAfter }, managed.phase)
    const spread = this.#isSuperseded(managed, issued, receivedAt) ? Math.min(due, this.followTime(managed)) : due
    const renewAt = isProvisional ? now : spread
    if (source === 'store') managed.resumed(receivedAt)
    if (issued.clientRefusal !== undefined)
      record(managed.identity, { kind: 'preflight-failed', reason: issued.clientRefusal, isServed: true })
    record(managed.identity, { kind: 'restored', from: source, serialNumber, notAfter, renewAt })
    plan.wait(managed, renewAt, 'renewal')
  }

  /** When the certificate of an identity follows a change at the CA. */
  followTime({ phase, served }: ManagedIdentity): number {
    const { clock, rotation } = this.#options
    const now = clock.now()
    return followTime({ now, notAfter: served.current?.secret.notAfter ?? now }, rotation.settleMs, phase)
  }

  #reportHeld({ identity }: ManagedIdentity, { secret, root }: Issued, from: number): void {
    const { clock, record } = this.#options
    const now = clock.now()
    const reason = secret.notBefore > now ? 'not-yet-valid' : 'root-announcing'
    const until = reason === 'root-announcing' ? Math.min(Math.max(root.settlesAt, now), from) : from
    record(identity, { kind: 'held', until, reason })
  }

  /** Whether the roots moved on while this certificate was under way. */
  #isSuperseded({ identity }: ManagedIdentity, { root }: Issued, startedAt: number): boolean {
    const { bundles } = this.#options.trust
    // A file that has roots of one identity says when it has changed.
    if (bundles.own(identity)?.anchor(root.fingerprint)) return false
    const bundle = bundles.get(trustDomainOf(identity))
    if (!bundle || bundle.isGivenUp(root.fingerprint)) return true
    return bundle.isSuperseded(root.fingerprint, startedAt)
  }
}

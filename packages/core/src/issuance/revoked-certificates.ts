/** Certificates in use that a revocation list names: they are renewed at once, and no revoked one replaces them. */

import { CAError } from '../contract/ca-client.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Issued } from '../identity/issued-certificate.ts'
import type { ManagedIdentity } from '../identity/managed-identity.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { LeafJudge } from '../trust/revoked-chain.ts'
import type { TrustStore } from '../trust/trust-store.ts'
import type { CAThrottle } from './ca-throttle.ts'
import type { RequestPlan } from './request-plan.ts'

export interface RevokedCertificatesOptions {
  readonly trust: Pick<TrustStore, 'revocations'>
  readonly plan: RequestPlan
  readonly throttle: Pick<CAThrottle<ManagedIdentity>, 'push'>
  /** Every identity that is held. */
  readonly identities: ReadonlyMap<SpiffeId, ManagedIdentity>
  /** Whether somebody streams it. */
  readonly isUsed: (identity: SpiffeId) => boolean
  readonly record: (name: string, event: SecretEvent) => void
}

export class RevokedCertificates {
  readonly #options: RevokedCertificatesOptions

  constructor(options: RevokedCertificatesOptions) {
    this.#options = options
  }

  /** The lists of a trust domain have changed. */
  check(trustDomain: string): void {
    const judges = new Map<string, LeafJudge>()
    for (const managed of this.#options.identities.values())
      if (trustDomainOf(managed.identity) === trustDomain) this.#look(managed, judges)
  }

  /** Its certificate was checked by nobody since the lists changed last. */
  look(managed: ManagedIdentity): void {
    this.#look(managed, new Map())
  }

  /** `judges`: by the kind of certificate, which thousands have in common. */
  #look(managed: ManagedIdentity, judges: Map<string, LeafJudge>): void {
    const { served, identity } = managed
    const revocationOf = (issued: Issued | undefined) => issued && this.#judge(identity, issued, judges)
    const isWaitingRevoked = revocationOf(served.waiting) !== undefined
    if (isWaitingRevoked) served.discardWaiting()
    if (revocationOf(served.spare) !== undefined) served.discardSpare()
    const { current, waiting } = served
    const revocation = revocationOf(current)
    const isNews = managed.setRevoked(revocation)
    if (current && revocation !== undefined && isNews)
      this.#options.record(identity, {
        kind: 'revoked',
        serialNumber: current.secret.serialNumber,
        reason: revocation,
      })
    if (revocation !== undefined && waiting) served.hasten(waiting.secret.notBefore)
    else if (isNews || isWaitingRevoked) this.#renew(managed)
  }

  #judge(identity: SpiffeId, { kind, secret, root }: Issued, judges: Map<string, LeafJudge>): string | undefined {
    let judge = judges.get(kind)
    if (!judge) {
      judge = this.#options.trust.revocations(identity, secret.certificateChain.toString('latin1'), root)
      judges.set(kind, judge)
    }
    return judge(secret.serialNumber)
  }

  /** As fast as the CA takes them, streamed ones first; the answer to a request in flight is checked against the new lists. */
  #renew(managed: ManagedIdentity): void {
    const { plan, throttle, isUsed } = this.#options
    const urgency = isUsed(managed.identity) ? 'on-demand' : 'renewal'
    const { kind } = managed.activity
    if (kind === 'waiting') plan.enqueue(managed, 'renewal', urgency)
    else if (kind === 'queued') throttle.push(managed, urgency)
  }
}

/** A revoked certificate is no better than the one in use, and of no use where there is none: the answer is tried again as any bad one. */
export function revokedAnswer(identity: SpiffeId, revocation: string): CAError {
  return new CAError(
    'bad-response',
    `revoked: the certificate that the CA gave for ${identity} replaces nothing, since peers would refuse it: ${revocation}. Have the CA sign with another key or certificate, or take it off the list.`,
  )
}

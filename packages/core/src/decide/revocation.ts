/** Certificates in use that a revocation list names: they are renewed at once, and no revoked one replaces them. */

import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { type Identity, type Issued, kindOf, usable } from '../state/identity.ts'
import { isUsed } from '../state/state.ts'
import type { LeafJudge } from '../trust/revoked-chain.ts'
import { enqueue } from './plan.ts'
import { dropSpare, dropUpcoming, hasten } from './serving.ts'
import { report, type Step } from './step.ts'

/** The lists of a trust domain have changed. */
export function crlChanged(step: Step, trustDomain: string): void {
  const judges = new Map<string, LeafJudge>()
  for (const identity of step.state.identities.values())
    if (trustDomainOf(identity.id) === trustDomain) checkRevocation(step, identity, judges)
}

/** `judges`: one for each kind of certificate, which thousands share. */
export function checkRevocation(step: Step, identity: Identity, judges = new Map<string, LeafJudge>()): void {
  const { now } = step
  const revocationOf = (issued: Issued | undefined) => issued && judge(step, identity.id, issued, judges)
  const isWaitingRevoked = revocationOf(identity.upcoming?.issued) !== undefined
  if (isWaitingRevoked) dropUpcoming(step, identity)
  if (revocationOf(identity.spare) !== undefined) dropSpare(step, identity)
  const current = usable(identity, now)
  const reason = revocationOf(current)
  const isNews = reason !== undefined && identity.revoked === undefined
  identity.revoked = reason === undefined ? undefined : { since: identity.revoked?.since ?? now, reason }
  if (current && reason !== undefined && isNews)
    report(step, identity.id, { kind: 'revoked', serialNumber: current.secret.serialNumber, reason })
  const { upcoming } = identity
  if (reason !== undefined && upcoming) hasten(step, identity, upcoming.issued.secret.notBefore)
  else if (isNews || isWaitingRevoked) renew(step, identity)
}

function judge(
  { state: { crls } }: Step,
  id: SpiffeId,
  issued: Issued,
  judges: Map<string, LeafJudge>,
): string | undefined {
  const { secret, root } = issued
  const kind = kindOf(issued)
  const known = judges.get(kind) ?? crls.of(trustDomainOf(id)).judgeOf(secret.certificateChain.toString('latin1'), root)
  judges.set(kind, known)
  return known(secret.serialNumber)
}

/** Renews as soon as the CA has room, streamed ones first; the answer to a request in flight is checked against the new lists. */
function renew(step: Step, identity: Identity): void {
  const { kind } = identity.work
  if (kind === 'waiting' || kind === 'queued')
    enqueue(step, identity, 'revoked', isUsed(step.state, identity) ? 'on-demand' : 'renewal')
}

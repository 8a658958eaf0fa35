/** Certificates in use that a revocation list names: they are renewed at once, and no revoked one replaces them. */

import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { type Identity, usable } from '../state/identity.ts'
import type { Issued } from '../state/issued.ts'
import { isUsed } from '../state/state.ts'
import type { LeafJudge } from '../trust/revoked-chain.ts'
import { enqueue } from './plan.ts'
import { dropSpare, dropUpcoming, hasten } from './serving.ts'
import { report, type Turn } from './turn.ts'

/** The lists of a trust domain have changed. */
export function crlChanged(turn: Turn, trustDomain: string): void {
  const judges = new Map<string, LeafJudge>()
  for (const identity of turn.state.identities.values())
    if (trustDomainOf(identity.id) === trustDomain) checkRevocation(turn, identity, judges)
}

/** `judges`: by the kind of certificate, which thousands have in common. */
export function checkRevocation(turn: Turn, identity: Identity, judges = new Map<string, LeafJudge>()): void {
  const { now } = turn
  const revocationOf = (issued: Issued | undefined) => issued && judge(turn, identity.id, issued, judges)
  const isWaitingRevoked = revocationOf(identity.upcoming?.issued) !== undefined
  if (isWaitingRevoked) dropUpcoming(turn, identity)
  if (revocationOf(identity.spare) !== undefined) dropSpare(turn, identity)
  const current = usable(identity, now)
  const reason = revocationOf(current)
  const isNews = reason !== undefined && identity.revoked === undefined
  identity.revoked = reason === undefined ? undefined : { since: identity.revoked?.since ?? now, reason }
  if (current && reason !== undefined && isNews)
    report(turn, identity.id, { kind: 'revoked', serialNumber: current.secret.serialNumber, reason })
  const { upcoming } = identity
  if (reason !== undefined && upcoming) hasten(turn, identity, upcoming.issued.secret.notBefore)
  else if (isNews || isWaitingRevoked) renew(turn, identity)
}

function judge(
  { state: { crls } }: Turn,
  id: SpiffeId,
  { kind, secret, root }: Issued,
  judges: Map<string, LeafJudge>,
): string | undefined {
  const known = judges.get(kind) ?? crls.of(trustDomainOf(id)).judgeOf(secret.certificateChain.toString('latin1'), root)
  judges.set(kind, known)
  return known(secret.serialNumber)
}

/** As fast as the CA takes them, streamed ones first; the answer to a request in flight is checked against the new lists. */
function renew(turn: Turn, identity: Identity): void {
  const urgency = isUsed(turn.state, identity) ? 'on-demand' : 'renewal'
  if (identity.work.kind === 'waiting') enqueue(turn, identity, 'renewal', urgency)
  else if (identity.work.kind === 'queued') turn.state.queue.push(identity, urgency)
}

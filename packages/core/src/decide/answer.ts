/** A certificate came, from the CA or the store: whether it is taken, from when it is served, when it is renewed. */

import { CAError } from '../contract/ca-client.ts'
import { wishText } from '../contract/certificate-wish.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { failingWith, type Identity, OK, type Request, usable, worthKeeping } from '../state/identity.ts'
import { type Issued, type Source, toIssued } from '../state/issued.ts'
import { faultOf } from '../x509/ca-answer-verifier.ts'
import { release } from './bundle.ts'
import { gaveCertificate } from './circuit.ts'
import type { Answer, Found, Judged, RestoreSource } from './event.ts'
import { bringForward, enqueue, isCurrent, ownBackoff, remainingOf, retryAfter, wait } from './plan.ts'
import { servesRefused } from './preflight.ts'
import { endShared } from './refusals.ts'
import { followTime, latestChange, MIN_RENEWAL_INTERVAL_MS, renewalTime, turnTime } from './renewal-time.ts'
import { failed } from './retry.ts'
import { checkRevocation } from './revocation.ts'
import { followFirst, mayReplace } from './rollout.ts'
import { accept } from './roots.ts'
import { offer } from './serving.ts'
import { report, type Turn } from './turn.ts'
import { followWish } from './wish.ts'

/** The CA's answer, which passed every check of its own. */
export function answered(turn: Turn, request: Request, answer: Answer, waitedMs: number): void {
  const identity = request.of
  const issued = isCurrent(request) ? take(turn, identity, answer, request) : undefined
  if (!issued || issued instanceof CAError) {
    turn.actions.push({ kind: 'wipe', key: answer.key })
    if (issued) failed(turn, request, issued, waitedMs)
    return
  }
  if (answer.accepted) turn.actions.push({ kind: 'accept', identity, accepted: answer.accepted })
  const cause = failingWith(identity)
  gaveCertificate(turn, request, waitedMs)
  turn.state.ttl.accepted(identity.id)
  use(turn, identity, issued, request.sentAt)
  endShared(turn, request, cause)
}

/** What the disk had: used, or else the other source is read, or else the CA asked. */
export function restored(turn: Turn, identity: Identity, from: RestoreSource, found: Found | string | undefined): void {
  const { state, actions } = turn
  const { work } = identity
  if (work.kind !== 'restoring') {
    state.restoring.end('first')
    if (typeof found === 'object') actions.push({ kind: 'wipe', key: found.key })
    return
  }
  const issued = typeof found === 'object' ? takeFound(turn, identity, from, found) : found
  if (typeof issued === 'string')
    report(turn, identity.id, { kind: 'not-restored', reason: `the ${WHAT[from]} certificate: ${issued}` })
  const isUsable = typeof issued === 'object' && typeof found === 'object'
  if (!isUsable && from === 'store') {
    actions.push({ kind: 'restore', identity, from: 'bootstrap' })
    return
  }
  state.restoring.end('first')
  if (isUsable) useFound(turn, identity, issued, found, work.isOutdated)
  else enqueue(turn, identity, work.urgency)
}

/** When the certificate of an identity follows a change at the CA. */
export function timeToFollow(turn: Turn, identity: Identity): number {
  return followTime(remainingOf(turn, identity), turn.policy.rotation.settleMs, identity.phase)
}

const WHAT = { store: 'stored', bootstrap: 'bootstrap' } as const

/** Nothing is learned before every check has passed: the roots of an answer that is refused were never trusted. */
function take(turn: Turn, identity: Identity, answer: Answer, request: Request): Issued | CAError {
  const { id } = identity
  const revocation = revocationOf(turn, answer)
  if (revocation !== undefined) return revokedAnswer(id, revocation)
  const { clientRefusal } = answer.verified
  if (clientRefusal !== undefined && !servesRefused(turn, identity, clientRefusal))
    return preflightFailed(id, clientRefusal)
  const { source } = answer
  const { phase, wish } = request
  return acceptAndLease(turn, id, answer, { source, receivedAt: turn.now, phase, wish: wishText(wish) })
}

function takeFound(turn: Turn, { id }: Identity, source: RestoreSource, found: Found): Issued | string {
  // A clock that was set back must not put off the renewal.
  const origin = { source, receivedAt: Math.min(found.receivedAt, turn.now), phase: found.phase, wish: found.wish }
  // It is no word of the CA's on what it names no longer.
  const issued = acceptAndLease(turn, id, { ...found, offered: { ...found.offered, isWhole: false } }, origin)
  if (!(issued instanceof CAError)) return issued
  turn.actions.push({ kind: 'wipe', key: found.key })
  return faultOf(issued)
}

/** Takes in its roots; fails if there is no place for the one that it needs. */
function acceptAndLease(
  turn: Turn,
  id: SpiffeId,
  { verified, offered, key, hint }: Judged & Partial<Pick<Answer, 'hint'>>,
  origin: { readonly source: Source; readonly receivedAt: number; readonly phase: number; readonly wish: string },
): Issued | CAError {
  const accepted = accept(turn, offered, verified)
  if (accepted instanceof CAError) return accepted
  accepted.bundle.lease(accepted.root.fingerprint)
  return toIssued(verified, { ...origin, ...accepted, id, key, hint })
}

/** Why the chain of an answer is revoked; `undefined` if it is not. */
function revocationOf({ state }: Turn, { offered, verified }: Answer): string | undefined {
  const { chainPem, serialNumber, rootFingerprint } = verified
  const root = state.bundles.anchorsFor(offered).find(({ fingerprint }) => fingerprint === rootFingerprint)
  return root && state.crls.of(trustDomainOf(offered.identity)).judgeOf(chainPem, root)(serialNumber)
}

/** A new certificate: served now, or when its root is known and its time has come. */
function use(turn: Turn, identity: Identity, issued: Issued, askedAt: number): void {
  const { policy, now } = turn
  const { secret } = issued
  const before = usable(identity, now)
  const inUse = worthKeeping(identity, now)
  const replaces = mayReplace(turn, identity, issued)
  // Old before new only while the old one lives; without one, a root that not every peer knows yet is the lesser evil.
  const announced = inUse && !replaces ? latestChange({ ...inUse, notAfter: inUse.secret.notAfter }, now) : now
  const from = Math.max(secret.notBefore, announced)
  const usableFrom = Math.max(now, secret.notBefore)
  const planned = renewalTime({ usableFrom, notAfter: secret.notAfter }, policy.rotation, issued.phase)
  const renewAt = isSuperseded(turn, identity, issued, askedAt)
    ? Math.min(planned, timeToFollow(turn, identity))
    : planned
  const { serialNumber, notAfter } = secret
  report(turn, identity.id, { kind: 'issued', serialNumber, notAfter, renewAt })
  if (from > now) reportHeld(turn, identity, issued, from)
  if (from > Math.max(inUse?.secret.notAfter ?? now, now + MIN_RENEWAL_INTERVAL_MS)) {
    takeTooLate(turn, identity, issued, from)
    return
  }
  identity.withheld = undefined
  identity.backoffs = 0
  identity.lastSuccessAt = now
  identity.health = OK
  wait(turn, identity, Math.max(renewAt, now + MIN_RENEWAL_INTERVAL_MS), 'renewal')
  offer(turn, identity, issued, from)
  if (before && replaces) followFirst(turn, identity, issued, before.root)
}

/** It begins after the one in use ends: the clock of the CA, or of the replica that answered, is ahead. Another may not be. */
function takeTooLate(turn: Turn, identity: Identity, issued: Issued, from: number): void {
  const { upcoming } = identity
  if (upcoming && upcoming.issued.secret.notBefore <= from) release(turn, issued)
  else offer(turn, identity, issued, from)
  retryAfter(turn, identity, ownBackoff(turn, identity))
}

/** It is renewed when it would have been without the restart; what fell due meanwhile soon, but spread out. */
function useFound(turn: Turn, identity: Identity, issued: Issued, found: Found, isOutdated: boolean): void {
  const { policy, now } = turn
  const { source, receivedAt, phase, clientRefusal } = issued
  const { serialNumber, notBefore, notAfter } = issued.secret
  const { isProvisional } = found
  offer(turn, identity, issued, notBefore)
  const planned = renewalTime({ usableFrom: Math.max(receivedAt, notBefore), notAfter }, policy.rotation, phase)
  const due = planned > now ? planned : turnTime({ now, notAfter }, identity.phase)
  const followed = isSuperseded(turn, identity, issued, receivedAt) ? Math.min(due, timeToFollow(turn, identity)) : due
  const renewAt = isProvisional ? now : followed
  if (source === 'store') identity.lastSuccessAt = receivedAt
  if (clientRefusal !== undefined)
    report(turn, identity.id, { kind: 'preflight-failed', reason: clientRefusal, isServed: true })
  const from = source === 'store' ? 'store' : 'bootstrap'
  report(turn, identity.id, { kind: 'restored', from, serialNumber, notAfter, renewAt })
  wait(turn, identity, renewAt, 'renewal')
  followWish(turn, identity, found.wish)
  checkRevocation(turn, identity)
  // One that is not valid yet serves nobody: the CA may give one that is.
  if (isProvisional || notBefore > now + MIN_RENEWAL_INTERVAL_MS) enqueue(turn, identity, 'first')
  else if (isOutdated) bringForward(turn, identity, timeToFollow(turn, identity), 'renewal')
}

function reportHeld(turn: Turn, { id }: Identity, { secret, root }: Issued, from: number): void {
  const { now } = turn
  const reason = secret.notBefore > now ? 'not-yet-valid' : 'root-announcing'
  const until = reason === 'root-announcing' ? Math.min(Math.max(root.settlesAt, now), from) : from
  report(turn, id, { kind: 'held', until, reason })
}

/** Whether the roots moved on while this certificate was under way. */
function isSuperseded({ state: { bundles } }: Turn, { id }: Identity, { root }: Issued, askedAt: number): boolean {
  // A file that has roots of one identity says when it has changed.
  if (bundles.own(id)?.anchor(root.fingerprint)) return false
  const bundle = bundles.get(trustDomainOf(id))
  return !bundle || bundle.isGivenUp(root.fingerprint) || bundle.isSuperseded(root.fingerprint, askedAt)
}

/** A revoked certificate is no better than the one in use, and of no use where there is none: the answer is tried again as any bad one. */
function revokedAnswer(id: SpiffeId, revocation: string): CAError {
  return new CAError(
    'bad-response',
    `revoked: the certificate that the CA gave for ${id} replaces nothing, since peers would refuse it: ${revocation}. Have the CA sign with another key or certificate, or take it off the list.`,
  )
}

/** The answer replaces nothing; it is tried again as any bad one. */
function preflightFailed(id: SpiffeId, reason: string): CAError {
  return new CAError(
    'bad-response',
    `preflight-failed: clients would refuse the certificate for ${id} with the roots that they are served, so the one in use stays: ${reason}`,
  )
}

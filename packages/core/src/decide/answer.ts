/** A request to the CA has ended. A certificate that came: decides whether to take it, when to serve it, when to renew it. */

import { CAError } from '../contract/ca-client.ts'
import { wishText } from '../contract/certificate-wish.ts'
import type { Root } from '../contract/trust-anchor.ts'
import { CertificateSecret } from '../secrets/certificate-secret.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import {
  failingWith,
  type Identity,
  type Issued,
  isCurrent,
  OK,
  type Reason,
  type Request,
  usable,
  worthKeeping,
} from '../state/identity.ts'
import { release } from './bundle.ts'
import { forgetAbsence } from './ca.ts'
import { gaveCertificate } from './ca-health.ts'
import { nextBackoff, remainingOf, retryAfter, wait } from './plan.ts'
import { servesRefused } from './preflight.ts'
import { endShared } from './refusals.ts'
import { canOutlive, followTime, latestChange, MIN_RENEWAL_INTERVAL_MS, renewalTime } from './renewal-time.ts'
import { failed } from './retry.ts'
import { followFirst } from './rollout.ts'
import { learnOffered } from './roots.ts'
import { mayReplace, offer } from './serving.ts'
import { type Answer, type Judged, report, reportForAll, type Step } from './step.ts'
import { followWish } from './wish.ts'

/** The request has ended: with an answer that passed every check that needs no state, or without a certificate. */
export function answered(step: Step, request: Request, answer: Answer | CAError, waitedMs: number): void {
  const { of: identity, wish, urgency } = request
  step.state.queue.end(urgency)
  if (isCurrent(request)) {
    if (answer instanceof CAError) failed(step, request, answer, waitedMs)
    else conclude(step, request, answer, waitedMs)
    // It may have changed while the request was under way.
    if (wish !== identity.wish) followWish(step, identity, wishText(wish))
  } else if (!(answer instanceof CAError)) step.actions.push({ kind: 'wipe', key: answer.key })
  forgetAbsence(step)
}

function conclude(step: Step, request: Request, answer: Answer, waitedMs: number): void {
  const identity = request.of
  const issued = take(step, identity, answer, request)
  if (issued instanceof CAError) {
    step.actions.push({ kind: 'wipe', key: answer.key })
    failed(step, request, issued, waitedMs)
    return
  }
  if (answer.accepted) step.actions.push({ kind: 'accept', identity, accepted: answer.accepted })
  const cause = failingWith(identity)
  gaveCertificate(step, request, waitedMs)
  step.state.acceptedTtlSeconds = identity.loweredTtlSeconds ?? step.state.acceptedTtlSeconds
  install(step, identity, issued, request.sentAt)
  endShared(step, request, cause)
}

/** When the certificate of an identity follows a change at the CA. */
export function timeToFollow(step: Step, identity: Identity): number {
  return followTime(remainingOf(step, identity), step.policy.rotation.settleMs, identity.slot)
}

/** Nothing is learned before every check has passed: the roots of an answer that is refused were never trusted. */
function take(step: Step, identity: Identity, answer: Answer, request: Request): Issued | CAError {
  const { id } = identity
  const revocation = revocationOf(step, id, answer)
  if (revocation !== undefined) return revokedAnswer(id, revocation)
  const { clientRefusal } = answer.verified
  if (clientRefusal !== undefined && !servesRefused(step, identity, clientRefusal))
    return preflightFailed(id, clientRefusal)
  const { source } = answer
  const { slot, wish } = request
  return accept(step, id, answer, { source, receivedAt: step.now, slot, wish: wishText(wish) })
}

/** Takes in its roots, and keeps the one that it is under; fails if there is no room for that. */
export function accept(
  step: Step,
  id: SpiffeId,
  judged: Judged,
  origin: Pick<Issued, 'source' | 'receivedAt' | 'slot' | 'wish'>,
): Issued | CAError {
  const { verified, offered, key, hint } = judged
  const { chainPem, rootFingerprint, clientRefusal, ...facts } = verified
  learnOffered(step, id, judged)
  const bundle = step.state.bundles.holderOf(id, rootFingerprint)
  const root = bundle?.anchor(rootFingerprint)
  if (!bundle || !root) return untrusted(step, id, offered.roots, rootFingerprint)
  bundle.roots.lease(rootFingerprint)
  const secret = new CertificateSecret({
    ...facts,
    name: id,
    certificateChain: chainPem,
    privateKey: key,
    hint: hint || undefined,
  })
  return { ...origin, secret, root, bundle, clientRefusal }
}

/** Why the chain of an answer is revoked; `undefined` if it is not. */
function revocationOf({ state }: Step, id: SpiffeId, { offered, verified }: Answer): string | undefined {
  const { chainPem, serialNumber, rootFingerprint } = verified
  const known = state.bundles.holderOf(id, rootFingerprint)?.anchor(rootFingerprint)
  const root = known ?? offered.roots.find(({ fingerprint }) => fingerprint === rootFingerprint)
  return root && state.crls.of(trustDomainOf(id)).judgeOf(chainPem, root)(serialNumber)
}

/** A new certificate: served now, or when its root is known and its time has come. */
function install(step: Step, identity: Identity, issued: Issued, askedAt: number): void {
  const { now } = step
  const { serialNumber, notAfter } = issued.secret
  const before = usable(identity, now)
  const inUse = worthKeeping(identity, now)
  const replaces = mayReplace(step, identity, issued)
  const from = servedFrom(step, issued, replaces ? undefined : inUse)
  const usableFrom = Math.max(now, issued.secret.notBefore)
  checkLife(step, notAfter - usableFrom)
  const planned = renewalTime({ usableFrom, notAfter }, step.policy.rotation, issued.slot)
  const { renewAt, reason } = renewalOf(step, identity, issued, askedAt, planned)
  report(step, identity.id, { kind: 'issued', serialNumber, notAfter, renewAt })
  if (from > now) reportPostponed(step, identity, issued, from)
  if (from > Math.max(inUse?.secret.notAfter ?? now, now + MIN_RENEWAL_INTERVAL_MS)) {
    takeTooLate(step, identity, issued, from)
    return
  }
  identity.withheld = undefined
  identity.backoffs = 0
  identity.lastSuccessAt = now
  identity.health = OK
  wait(step, identity, Math.max(renewAt, now + MIN_RENEWAL_INTERVAL_MS), reason)
  offer(step, identity, issued, from)
  if (before && replaces) followFirst(step, identity, issued, before.root)
}

/** The new one waits only while the old one lives; without an old one, a root that some peers do not know yet is the lesser evil. */
function servedFrom({ now }: Step, { secret }: Issued, kept: Issued | undefined): number {
  const announced = kept ? latestChange(kept.receivedAt, kept.secret.notAfter, now) : now
  return Math.max(secret.notBefore, announced)
}

/** As planned, or sooner if the roots have moved on since the request. */
export function renewalOf(
  step: Step,
  identity: Identity,
  issued: Issued,
  askedAt: number,
  planned: number,
): { readonly renewAt: number; readonly reason: Reason } {
  const follows = isSuperseded(step, identity, issued, askedAt) ? timeToFollow(step, identity) : planned
  return follows < planned ? { renewAt: follows, reason: 'new-root' } : { renewAt: planned, reason: 'renewal' }
}

/** Lifetimes differ by seconds, and shrink as the CA's own certificate ends: only half the last one reported is news. */
function checkLife(step: Step, lifetimeMs: number): void {
  const { state } = step
  const { surviveMs } = step.policy.rotation
  if (surviveMs === undefined || canOutlive(lifetimeMs, surviveMs) || lifetimeMs > state.shortestLifeReported / 2)
    return
  state.shortestLifeReported = lifetimeMs
  reportForAll(step, { kind: 'life-too-short', lifetimeMs, surviveMs })
}

/** It begins after the one in use ends: the clock of this CA replica is ahead, and another replica's may not be. */
function takeTooLate(step: Step, identity: Identity, issued: Issued, from: number): void {
  const { upcoming } = identity
  if (upcoming && upcoming.issued.secret.notBefore <= from) release(step, issued)
  else offer(step, identity, issued, from)
  retryAfter(step, identity, nextBackoff(step, identity))
}

function reportPostponed(step: Step, { id }: Identity, { secret, root }: Issued, from: number): void {
  const { now } = step
  const reason = secret.notBefore > now ? 'not-yet-valid' : 'root-announcing'
  const until = reason === 'root-announcing' ? Math.min(Math.max(root.settlesAt, now), from) : from
  report(step, id, { kind: 'served-later', until, reason })
}

/** Whether the roots moved on while this certificate was under way. */
function isSuperseded({ state: { bundles } }: Step, { id }: Identity, { root }: Issued, askedAt: number): boolean {
  // A file with an identity's own roots reports its own changes.
  if (bundles.own(id)?.anchor(root.fingerprint)) return false
  const bundle = bundles.get(trustDomainOf(id))
  return !bundle || bundle.isGivenUp(root.fingerprint) || bundle.roots.isSuperseded(root.fingerprint, askedAt)
}

/** A revoked certificate replaces nothing: the request is retried as after any bad answer. */
function revokedAnswer(id: SpiffeId, revocation: string): CAError {
  return new CAError(
    'bad-response',
    `revoked: the certificate that the CA gave for ${id} replaces nothing, since peers would refuse it: ${revocation}. Have the CA sign with another key or certificate, or take it off the list.`,
  )
}

/** The answer replaces nothing: the request is retried as after any bad answer. */
function preflightFailed(id: SpiffeId, reason: string): CAError {
  return new CAError(
    'bad-response',
    `preflight-failed: clients would refuse the certificate for ${id} with the roots that they are served, so the one in use stays: ${reason}`,
  )
}

function untrusted({ state }: Step, id: SpiffeId, offered: readonly Root[], rootFingerprint: string): CAError {
  const revoked = state.crls.of(trustDomainOf(id)).revoked(offered)
  const isRevoked = revoked.some(({ fingerprint }) => fingerprint === rootFingerprint)
  return new CAError('bad-response', `The root of ${id} is not trusted: ${isRevoked ? REVOKED : NO_ROOM}`)
}

const REVOKED =
  'a revocation list of its issuer names it. Have the CA sign under another root, or take it off the list.'
const NO_ROOM =
  'there is no room for it beside those that are, or it was removed meanwhile. Drop those that nobody needs: livery trust drop.'

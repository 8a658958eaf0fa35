/** When a request that failed is made again: after its backoff, when the CA asks for it, or when the CA is back. */

import type { CAError } from '../contract/ca-client.ts'
import { failureKind, isAbsence } from '../contract/ca-failure.ts'
import { CONTRADICTIONS_TO_BE_ALONE, type Identity, type Request } from '../state/identity.ts'
import { backoff } from '../time/backoff.ts'
import { requestedWait } from './ca.ts'
import { countFailure } from './ca-health.ts'
import { enqueue, nextBackoff, reasonOf, retryAfter, ttlOf } from './plan.ts'
import { shareFailure } from './refusals.ts'
import { MIN_RENEWAL_INTERVAL_MS } from './renewal-time.ts'
import { report, reportForAll, type Step } from './step.ts'

/** CAs give no shorter life; below it a node would only renew. */
const SHORTEST_TTL_SECONDS = 300

/** The request has ended without a certificate: plans the next one. */
export function failed(step: Step, request: Request, failure: CAError, waitedMs: number): void {
  const { state } = step
  const identity = request.of
  if (failure.deferred !== undefined) {
    putOff(step, request, failure, failure.deferred)
    return
  }
  noteContradiction(step, identity, failure)
  if (!waitsForApproval(step, identity)) countFailure(step, request, failure, waitedMs)
  const { nextProbeAt } = state.ca.absence
  if (nextProbeAt !== undefined && isAbsence(failure)) {
    noteFailure(step, identity, failure)
    report(step, identity.id, { kind: 'retry-planned', at: nextProbeAt })
    // It queues behind identities that have not probed the CA yet: one that always fails must not come first each time.
    enqueue(step, identity, reasonOf(step, identity, 'first'), 'retry')
    return
  }
  const delayMs = waitAfter(step, request, failure)
  noteFailure(step, identity, failure)
  retryAfter(step, identity, delayMs)
}

/**
 * Another CA could issue, and is kept until `until`. Identities without a certificate may ask that CA now, so this failure
 * counts for none of them and takes no probe. The retry comes sooner than `until`: the first CA may be back.
 */
function putOff(step: Step, request: Request, failure: CAError, until: number): void {
  const { state, now } = step
  state.ca.absence.passed(request.sentAt, now)
  noteFailure(step, request.of, failure)
  const leftMs = Math.max(until - now, MIN_RENEWAL_INTERVAL_MS)
  retryAfter(step, request.of, Math.min(nextBackoff(step, request.of), leftMs))
}

/** Milliseconds until the request is made again. */
function waitAfter(step: Step, request: Request, failure: CAError): number {
  const { state, policy, now } = step
  const identity = request.of
  if (failure.code === 'ttl-too-long' && lowerTtl(step, identity)) return nextBackoff(step, identity)
  // Probes find the end of a cause that many share.
  const isShared = !isAbsence(failure) && !waitsForApproval(step, identity) && shareFailure(step, request, failure)
  // A CA without room is no evidence against this identity: it comes back with the others.
  if (failure.code === 'rate-limited' && !failure.local && !state.ca.pause.isOver) return state.ca.pause.until - now
  const delayMs =
    failure.retryable && !isShared
      ? nextBackoff(step, identity, mayBeUnknown(identity, failure))
      : backoff(Number.MAX_SAFE_INTEGER, policy.retry, policy.random())
  return Math.max(delayMs, requestedWait(step, failure) ?? 0)
}

/** The CA may be about to learn of an identity that never had a certificate. */
function mayBeUnknown({ lastSuccessAt }: Identity, { code, local }: CAError): boolean {
  return code === 'unauthenticated' && !local && lastSuccessAt === undefined
}

/** The request waits for an approval, which is no evidence about the CA. */
function waitsForApproval({ state }: Step, { id }: Identity): boolean {
  return state.pending.has(id)
}

/** Counts that others succeeded between its previous failure and this one. */
function noteContradiction({ state: { ca } }: Step, identity: Identity, failure: CAError): void {
  const { health, lastFailure } = identity
  const at = lastFailure?.at ?? 0
  const isContradicted = isAbsence(failure) ? at <= ca.absence.lastContradictedAt : at < ca.lastCertificateAskedAt
  if (health.kind !== 'failing' || !isContradicted) return
  const contradictions = health.contradictions + (isAbsence(failure) ? CONTRADICTIONS_TO_BE_ALONE : 1)
  identity.health = { ...health, contradictions, failedAlone: true }
}

function noteFailure(step: Step, identity: Identity, failure: CAError): void {
  const { code, message, local, deferred } = failure
  const { health } = identity
  const before = health.kind === 'failing' ? health : { since: step.now, failedAlone: false, contradictions: 0 }
  identity.lastFailure = {
    at: step.now,
    code,
    message,
    ...(local && { local }),
    ...(deferred !== undefined && { deferred }),
  }
  identity.health = {
    kind: 'failing',
    since: before.since,
    cause: failureKind(failure),
    failedAlone: before.failedAlone || !failsForAll(failure),
    contradictions: before.contradictions,
  }
  report(step, identity.id, { kind: 'ca-error', code, message, ...(local && { local }) })
}

/** A CA that is down or has no room fails for all: no evidence against one identity. */
function failsForAll({ code, local, deferred }: CAError): boolean {
  return deferred !== undefined || (!local && (code === 'unavailable' || code === 'rate-limited'))
}

/** Asks for half of the lifetime from now on, or for one that the CA took. `false` if it refuses even the shortest. */
function lowerTtl(step: Step, identity: Identity): boolean {
  const { state } = step
  const fromSeconds = ttlOf(state, identity)
  const half = Math.max(Math.floor(fromSeconds / 2), SHORTEST_TTL_SECONDS)
  const { acceptedTtlSeconds: accepted = half } = state
  const toSeconds = accepted < fromSeconds ? accepted : half
  if (toSeconds >= fromSeconds) return false
  identity.loweredTtlSeconds = toSeconds
  if (toSeconds < state.lowestTtlReported) {
    state.lowestTtlReported = toSeconds
    reportForAll(step, { kind: 'ttl-lowered', fromSeconds, toSeconds })
  }
  return true
}

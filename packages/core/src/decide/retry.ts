/** When a request that failed is made again: after its backoff, when the CA asks for it, or when the CA is back. */

import type { CAError } from '../contract/ca-client.ts'
import { failureKind, isAbsence } from '../contract/ca-failure.ts'
import { CONTRADICTIONS_TO_BE_ALONE, type Identity, type Request, usable } from '../state/identity.ts'
import { backoff } from '../time/backoff.ts'
import { requestedWait } from './ca.ts'
import { countFailure } from './circuit.ts'
import { enqueue, isCurrent, ownBackoff, retryAfter } from './plan.ts'
import { shareFailure } from './refusals.ts'
import { MIN_RENEWAL_INTERVAL_MS } from './renewal-time.ts'
import { report, reportForAll, type Turn } from './turn.ts'

/** The request has ended without a certificate: plans the next one, unless nobody waits for it any longer. */
export function failed(turn: Turn, request: Request, failure: CAError, waitedMs: number): void {
  const { state } = turn
  if (!isCurrent(request)) return
  const identity = request.of
  if (failure.deferred !== undefined) {
    putOff(turn, request, failure, failure.deferred)
    return
  }
  noteContradiction(turn, identity, failure)
  if (!waitsForApproval(turn, identity)) countFailure(turn, request, failure, waitedMs)
  const { nextProbeAt } = state.ca.absence
  if (nextProbeAt !== undefined && isAbsence(failure)) {
    noteFailure(turn, identity, failure)
    report(turn, identity.id, { kind: 'retry-planned', at: nextProbeAt })
    // Behind those that have not probed the CA yet: an identity that always fails must not come first each time.
    enqueue(turn, identity, usable(identity, turn.now) ? 'renewal' : 'first', 'retry')
    return
  }
  const delay = delayOf(turn, request, failure)
  noteFailure(turn, identity, failure)
  retryAfter(turn, identity, delay)
}

/**
 * Another CA could issue, and is kept until `until`. Identities without a certificate may ask that one now, so this counts for
 * none of them, and takes none of their probes. It is tried again sooner, too: the first CA may be back.
 */
function putOff(turn: Turn, request: Request, failure: CAError, until: number): void {
  const { state, now } = turn
  state.ca.absence.passed(request.sentAt, now)
  noteFailure(turn, request.of, failure)
  const leftMs = Math.max(until - now, MIN_RENEWAL_INTERVAL_MS)
  retryAfter(turn, request.of, Math.min(ownBackoff(turn, request.of), leftMs))
}

/** Milliseconds. A CA without room says nothing of this identity: it comes back with the others when the pause ends, if there is one. */
function delayOf(turn: Turn, request: Request, failure: CAError): number {
  const { state, policy, now } = turn
  const identity = request.of
  if (failure.code === 'ttl-too-long' && lowerTtl(turn, identity)) return ownBackoff(turn, identity)
  // Probes find the end of a cause that many share.
  const isShared = !isAbsence(failure) && !waitsForApproval(turn, identity) && shareFailure(turn, request, failure)
  if (failure.code === 'rate-limited' && !failure.local && !state.ca.pause.isOver) return state.ca.pause.until - now
  const isNew = failure.code === 'unauthenticated' && !failure.local && identity.lastSuccessAt === undefined
  const own =
    failure.retryable && !isShared
      ? ownBackoff(turn, identity, isNew)
      : backoff(Number.MAX_SAFE_INTEGER, policy.retry, policy.random())
  return Math.max(own, requestedWait(turn, failure) ?? 0)
}

/** Somebody takes their time to approve it: that says nothing of the CA. */
function waitsForApproval({ state }: Turn, { id }: Identity): boolean {
  return state.pending.has(id)
}

/** Others fared better between its previous failure and this one. */
function noteContradiction({ state: { ca } }: Turn, identity: Identity, failure: CAError): void {
  const { health, lastFailure } = identity
  const at = lastFailure?.at ?? 0
  const isContradicted = isAbsence(failure) ? at <= ca.absence.lastContradictedAt : at < ca.lastCertificateAskedAt
  if (health.kind !== 'failing' || !isContradicted) return
  const contradictions = health.contradictions + (isAbsence(failure) ? CONTRADICTIONS_TO_BE_ALONE : 1)
  identity.health = { ...health, contradictions, isOwn: true }
}

function noteFailure(turn: Turn, identity: Identity, failure: CAError): void {
  const { code, message, local } = failure
  const { health } = identity
  const before = health.kind === 'failing' ? health : { since: turn.now, isOwn: false, contradictions: 0 }
  identity.lastFailure = { at: turn.now, code, message, ...(local && { local }) }
  identity.health = {
    kind: 'failing',
    since: before.since,
    cause: failureKind(failure),
    isOwn: before.isOwn || isItsOwn(failure),
    contradictions: before.contradictions,
  }
  report(turn, identity.id, { kind: 'ca-error', code, message, ...(local && { local }) })
}

/** A CA that is away or has no room fails for all: that says nothing of an identity. */
function isItsOwn({ code, local, deferred }: CAError): boolean {
  if (deferred !== undefined) return false
  return local || (code !== 'unavailable' && code !== 'rate-limited')
}

/** `false` where the CA refuses even the shortest lifetime. */
function lowerTtl(turn: Turn, { id }: Identity): boolean {
  const { state } = turn
  const fromSeconds = state.ttl.of(id)
  const toSeconds = state.ttl.lower(id)
  if (toSeconds === undefined) return false
  if (toSeconds < state.lowestTtlReported) {
    state.lowestTtlReported = toSeconds
    reportForAll(turn, { kind: 'ttl-lowered', fromSeconds, toSeconds })
  }
  return true
}

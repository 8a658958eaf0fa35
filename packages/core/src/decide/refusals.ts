/** Failures that many identities share though there is a CA: one of them is tried every few seconds, and its success ends the wait of all. */

import type { CAError } from '../contract/ca-client.ts'
import { type FailureKind, failureKind } from '../contract/ca-failure.ts'
import type { SharedRefusal } from '../state/ca-health.ts'
import { failingWith, type Identity, isAlone, type Request, usable } from '../state/identity.ts'
import { SharedFault } from '../state/shared-fault.ts'
import { countAgainst, requestedWait } from './ca.ts'
import { askAllAgain } from './outage.ts'
import { enqueue, probePause, reasonOf } from './plan.ts'
import { reportForAll, type Step } from './step.ts'

/** The shortest wait for a CA that has no room and names no wait. */
const LEAST_WITHOUT_ROOM_MS = 1_600

/** A request was refused, or could not be made. Returns whether its identity shares the cause with many. */
export function shareFailure(step: Step, request: Request, failure: CAError): boolean {
  const {
    state: { ca },
    now,
  } = step
  const kind = failureKind(failure)
  const shared = ca.shared.get(kind) ?? newShared()
  ca.shared.set(kind, shared)
  shared.hasSleepers = true
  const wait = requestedWait(step, failure)
  const waitForRoom = wait === undefined ? LEAST_WITHOUT_ROOM_MS : ca.pause.until - now
  const opens = countAgainst(step, shared.fault, request, kind === 'rate-limited' ? waitForRoom : (wait ?? 0))
  if (opens) reportForAll(step, { kind: 'shared-failure', failure: kind })
  return shared.fault.since !== undefined && !isAlone(request.of)
}

/** A request got its certificate; `kind`: its identity's previous failure, if any. */
export function endShared(step: Step, { of, sentAt }: Request, kind: FailureKind | undefined): void {
  const {
    state: { ca, identities },
    now,
  } = step
  ca.lastCertificateAskedAt = Math.max(ca.lastCertificateAskedAt, sentAt)
  const askers: Identity[] = []
  for (const [each, shared] of ca.shared) {
    const since = shared.fault.contradicted(sentAt, now)
    if (since !== undefined) reportForAll(step, { kind: 'shared-failure-over', failure: each, since })
    if (!shared.hasSleepers || (since === undefined && each !== kind)) continue
    shared.hasSleepers = false
    for (const other of identities.values())
      if (failingWith(other) === each && mayAskAgain(step, other))
        if (since !== undefined || other.tokenFile === of.tokenFile) askers.push(other)
  }
  if (askers.length > 0) askAllAgain(step, askers)
}

/** Somebody waits for this identity: it is soon the probe of a cause that it shares. */
export function hurryShared({ state, now }: Step, identity: Identity): void {
  const kind = failingWith(identity)
  const shared = kind && state.ca.shared.get(kind)
  if (!shared || shared.fault.since === undefined || isAlone(identity)) return
  shared.fault.hurry(now)
  shared.waitedFor = identity
}

/** When the next probe is due; infinite if none is. */
export function nextProbeOfShared({ ca }: Step['state']): number {
  let at = Number.POSITIVE_INFINITY
  if (ca.shared.size === 0) return at
  for (const { fault } of ca.shared.values()) at = Math.min(at, fault.nextProbeAt ?? at)
  return at
}

/** Probes the causes whose time has come. */
export function probeShared(step: Step): void {
  for (const [kind, shared] of step.state.ca.shared)
    if ((shared.fault.nextProbeAt ?? Number.POSITIVE_INFINITY) <= step.now) probe(step, kind, shared)
}

function newShared(): SharedRefusal {
  return { fault: new SharedFault('refusals'), hasSleepers: false, wasUrgent: false, waitedFor: undefined }
}

/** An identity that fails alone would only double its load on the CA. */
function mayAskAgain({ policy, now }: Step, identity: Identity): boolean {
  const isRested = Math.abs(now - identity.askedAgainAt) >= policy.retry.maxMs
  return identity.work.kind === 'waiting' && (!isAlone(identity) || isRested)
}

function probe(step: Step, kind: FailureKind, shared: SharedRefusal): void {
  const { state, now } = step
  const { waitedFor } = shared
  shared.waitedFor = undefined
  const next = waitedFor && canProbe(waitedFor, kind) ? waitedFor : nextToProbe(step, kind, !shared.wasUrgent)
  // The identities that failed may be gone meanwhile.
  if (!next) {
    state.ca.shared.delete(kind)
    return
  }
  shared.fault.started(now, next)
  shared.wasUrgent = usable(next, now) === undefined
  enqueue(step, next, reasonOf(step, next))
  if (kind === 'rate-limited') probePause(step)
}

/** The next identity in turn; if `isUrgent`, identities without a certificate come first. */
function nextToProbe(step: Step, kind: FailureKind, isUrgent: boolean): Identity | undefined {
  let next: Identity | undefined
  for (const identity of step.state.identities.values())
    if (canProbe(identity, kind) && (!next || isBefore(step, identity, next, isUrgent))) next = identity
  return next
}

function canProbe(identity: Identity, kind: FailureKind): boolean {
  return failingWith(identity) === kind && !isAlone(identity) && identity.work.kind === 'waiting'
}

function isBefore({ now }: Step, one: Identity, other: Identity, isUrgent: boolean): boolean {
  const [mine, theirs] = [usable(one, now) === undefined, usable(other, now) === undefined]
  if (isUrgent && mine !== theirs) return mine
  return (one.lastFailure?.at ?? 0) < (other.lastFailure?.at ?? 0)
}

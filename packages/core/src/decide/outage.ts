/** The order in which identities ask the CA again after an outage, or once the cause of failures may be gone: soon, not all at once. */

import { CAError } from '../contract/ca-client.ts'
import { trustDomainOf } from '../spiffe/spiffe-id.ts'
import { failingWith, hasFailedAlone, type Identity, isAlone, usable } from '../state/identity.ts'
import { HANGING_MS } from '../state/shared-fault.ts'
import { isUsed } from '../state/state.ts'
import { hurryProbe } from './ca.ts'
import { bringForward, enqueue, nextBackoff, reasonOf, remainingOf, retryAfter, wait } from './plan.ts'
import { askAgainTime } from './renewal-time.ts'
import { reportForAll, type Step } from './step.ts'

/** The CA answers again. Without this each identity that failed meanwhile would wait out its own backoff. */
export function caIsBack(step: Step, downSince: number): void {
  reportForAll(step, { kind: 'ca-back', downSince })
  const all = [...step.state.identities.values()]
  const waiting = all.filter(identity => isDelayed(step, identity, downSince))
  for (const identity of usedFirst(step, waiting)) askAgain(step, identity)
  for (const identity of all) giveUpIfHanging(step, identity)
  step.actions.push({ kind: 'askRoots', isChanged: false })
}

/** The cause that these identities seemed to share is gone. Unless it is alone, the failures of each count no more. */
export function askAllAgain(step: Step, refused: readonly Identity[]): void {
  for (const identity of usedFirst(step, refused)) {
    identity.askedAgainAt = step.now
    if (!isAlone(identity)) forgive(identity)
    const reason = reasonOf(step, identity)
    if (usable(identity, step.now)) bringForward(step, identity, timeToAskAgain(step, identity), reason)
    else enqueue(step, identity, reason, isAlone(identity) ? 'retry' : undefined)
  }
}

/** The cause may be gone: something changed for all identities, or for all of a trust domain. */
export function retryFailing(step: Step, trustDomain?: string): void {
  const { state, policy, now } = step
  for (const identity of state.identities.values()) {
    const { health, lastFailure, id } = identity
    if (health.kind !== 'failing' || !lastFailure) continue
    if (trustDomain !== undefined && trustDomainOf(id) !== trustDomain) continue
    const due = Math.max(timeToAskAgain(step, identity), Math.min(lastFailure.at, now) + policy.retry.minMs)
    bringForward(step, identity, due, reasonOf(step, identity, 'first'))
  }
  hurryProbe(step)
}

/** Its past failures no longer count against it. */
export function forgive(identity: Identity): void {
  identity.backoffs = 0
  if (identity.health.kind === 'failing') identity.health = { ...identity.health, failedAlone: false }
}

/** An identity without a certificate asks as soon as the CA has room; with one, while it lasts; one that fails alone, after its backoff. */
function askAgain(step: Step, identity: Identity): void {
  const { work } = identity
  if (isAlone(identity)) {
    if (work.kind === 'queued') retryAfter(step, identity, nextBackoff(step, identity))
    return
  }
  identity.backoffs = 0
  const reason = reasonOf(step, identity)
  if (!usable(identity, step.now)) {
    step.state.queue.delete(identity)
    enqueue(step, identity, reason, hasFailedAlone(identity) ? 'retry' : undefined)
    return
  }
  const again = timeToAskAgain(step, identity)
  wait(step, identity, work.kind === 'waiting' ? Math.min(work.due, again) : again, reason)
}

/** Whether it waits for the CA: in the queue, or for the end of its backoff. A renewal that just fell due is in its place in the queue. */
function isDelayed({ now }: Step, identity: Identity, downSince: number): boolean {
  const { work, health, lastFailure } = identity
  if (work.kind === 'queued') return health.kind === 'failing' || usable(identity, now) === undefined
  if (work.kind !== 'waiting' || lastFailure === undefined) return false
  return lastFailure.at >= downSince && failingWith(identity) === 'absence'
}

/** Its connection may be dead, since the CA answers others; a request that waits for approval is no sign of that. */
function giveUpIfHanging({ state, now, actions }: Step, { work, id }: Identity): void {
  if (work.kind !== 'fetching' || state.pending.has(id) || now - work.request.sentAt < HANGING_MS) return
  const reason = new CAError('timeout', `The CA did not answer for ${id}, and answered others meanwhile`)
  actions.push({ kind: 'abort', request: work.request, reason })
}

function usedFirst({ state }: Step, identities: readonly Identity[]): readonly Identity[] {
  return [
    ...identities.filter(identity => isUsed(state, identity)),
    ...identities.filter(identity => !isUsed(state, identity)),
  ]
}

function timeToAskAgain(step: Step, identity: Identity): number {
  return askAgainTime(remainingOf(step, identity), identity.slot, isUsed(step.state, identity))
}

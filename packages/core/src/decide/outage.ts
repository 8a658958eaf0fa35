/** The order in which identities ask the CA again after an outage, or when the cause of failures has perhaps passed: soon, and not all at once. */

import { CAError } from '../contract/ca-client.ts'
import { trustDomainOf } from '../spiffe/spiffe-id.ts'
import { failingWith, hasFailedAlone, type Identity, isAlone, usable } from '../state/identity.ts'
import { HANGING_MS } from '../state/shared-fault.ts'
import { isUsed } from '../state/state.ts'
import { hurryProbe } from './ca.ts'
import { bringForward, enqueue, firstReason, ownBackoff, remainingOf, retryAfter, wait } from './plan.ts'
import { wakeTime } from './renewal-time.ts'
import { reportForAll, type Turn } from './turn.ts'

/** The CA answers again. Without this each identity that failed meanwhile would wait out its own backoff. */
export function caIsBack(turn: Turn, downSince: number): void {
  reportForAll(turn, { kind: 'ca-back', downSince })
  const all = [...turn.state.identities.values()]
  const waiting = all.filter(identity => isHeldUp(turn, identity, downSince))
  for (const identity of usedFirst(turn, waiting)) askAgain(turn, identity)
  for (const identity of all) giveUpIfHanging(turn, identity)
  turn.actions.push({ kind: 'askRoots', isChanged: false })
}

/** The cause that these identities seemed to share is gone. Unless it is alone, the failures of each count no more. */
export function wakeAll(turn: Turn, refused: readonly Identity[]): void {
  for (const identity of usedFirst(turn, refused)) {
    identity.wokenAt = turn.now
    if (!isAlone(identity)) forgiveOwn(identity)
    const reason = firstReason(turn, identity)
    if (usable(identity, turn.now)) bringForward(turn, identity, timeToWake(turn, identity), 'renewal')
    else enqueue(turn, identity, reason, isAlone(identity) ? 'retry' : reason)
  }
}

/** The cause may be gone: something changed for all identities, or for those of a trust domain. */
export function retryFailing(turn: Turn, trustDomain?: string): void {
  const { state, policy, now } = turn
  for (const identity of state.identities.values()) {
    const { health, lastFailure, id } = identity
    if (health.kind !== 'failing' || !lastFailure) continue
    if (trustDomain !== undefined && trustDomainOf(id) !== trustDomain) continue
    const due = Math.max(timeToWake(turn, identity), Math.min(lastFailure.at, now) + policy.retry.minMs)
    bringForward(turn, identity, due, usable(identity, now) ? 'renewal' : 'first')
  }
  hurryProbe(turn)
}

/** Its failures say nothing of it any longer. */
export function forgiveOwn(identity: Identity): void {
  identity.backoffs = 0
  if (identity.health.kind === 'failing') identity.health = { ...identity.health, isOwn: false }
}

/** Without a certificate at once, as fast as the CA takes them; with one while it lasts; one that fails alone after its backoff. */
function askAgain(turn: Turn, identity: Identity): void {
  const { work } = identity
  if (isAlone(identity)) {
    if (work.kind === 'queued') retryAfter(turn, identity, ownBackoff(turn, identity))
    return
  }
  identity.backoffs = 0
  const reason = firstReason(turn, identity)
  if (!usable(identity, turn.now)) {
    turn.state.queue.delete(identity)
    enqueue(turn, identity, reason, hasFailedAlone(identity) ? 'retry' : reason)
    return
  }
  const woken = timeToWake(turn, identity)
  wait(turn, identity, work.kind === 'waiting' ? Math.min(work.due, woken) : woken, 'renewal')
}

/** Whether it waits for the CA: in the queue, or for the end of its backoff. A renewal that just fell due is in its place in the queue. */
function isHeldUp({ now }: Turn, identity: Identity, downSince: number): boolean {
  const { work, health, lastFailure } = identity
  if (work.kind === 'queued') return health.kind === 'failing' || usable(identity, now) === undefined
  if (work.kind !== 'waiting' || lastFailure === undefined) return false
  return lastFailure.at >= downSince && failingWith(identity) === 'absence'
}

/** Its connection may be dead: the CA answers others. While somebody takes their time to approve it, that says nothing of the CA. */
function giveUpIfHanging({ state, now, actions }: Turn, { work, id }: Identity): void {
  if (work.kind !== 'fetching' || state.pending.has(id) || now - work.request.sentAt < HANGING_MS) return
  const reason = new CAError('timeout', `The CA did not answer for ${id}, and answered others meanwhile`)
  actions.push({ kind: 'abort', request: work.request, reason })
}

function usedFirst({ state }: Turn, identities: readonly Identity[]): readonly Identity[] {
  return [
    ...identities.filter(identity => isUsed(state, identity)),
    ...identities.filter(identity => !isUsed(state, identity)),
  ]
}

function timeToWake(turn: Turn, identity: Identity): number {
  return wakeTime(remainingOf(turn, identity), identity.phase, isUsed(turn.state, identity))
}

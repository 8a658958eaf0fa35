/** Requests that are made sooner than planned: somebody waits, an operator wishes it, the reason of a failure is gone. */

import type { CAChange } from '../contract/ca-client.ts'
import { type Identity, usable } from '../state/identity.ts'
import { isUsed } from '../state/state.ts'
import { timeToFollow } from './answer.ts'
import { hurryProbe } from './ca.ts'
import { forgiveOwn } from './outage.ts'
import { bringForward, enqueue, setWork } from './plan.ts'
import { hurryShared } from './refusals.ts'
import { MIN_RENEWAL_INTERVAL_MS } from './renewal-time.ts'
import type { Turn } from './turn.ts'

/** A failed request is tried again so soon while somebody waits, however often they ask. */
const HURRIED_RETRY_MS = 10_000

/** Somebody waits for it, and it has no certificate or fails to renew the one that it has. */
export function hurry(turn: Turn, identity: Identity): void {
  const { state, now } = turn
  const { work, health, lastFailure } = identity
  const reason = usable(identity, now) ? 'renewal' : 'on-demand'
  if (work.kind === 'queued') {
    state.queue.push(identity, reason)
    hurryProbe(turn)
  } else if (work.kind === 'idle') revive(turn, identity)
  else if (health.kind === 'failing' && lastFailure) {
    hurryShared(turn, identity)
    bringForward(turn, identity, Math.max(now, Math.min(lastFailure.at, now) + HURRIED_RETRY_MS), reason)
  } else if (work.kind === 'restoring' && work.urgency !== 'on-demand') {
    setWork(turn, identity, { ...work, urgency: 'on-demand' })
    state.restoring.raise(identity, 'on-demand')
  }
}

/** The reason for the CA's refusal may no longer hold: it begins again, as if it were new. */
export function retryNow(turn: Turn, identity: Identity): void {
  if (identity.work.kind !== 'waiting') return
  forgiveOwn(identity)
  if (identity.health.kind === 'failing') identity.health = { ...identity.health, contradictions: 0 }
  if (!usable(identity, turn.now)) enqueue(turn, identity, 'first')
  else if (identity.health.kind === 'failing') enqueue(turn, identity, 'renewal')
}

/** An operator wishes it. */
export function renewNow(turn: Turn, identity: Identity): void {
  const { state, now } = turn
  const { work, lastSuccessAt = 0 } = identity
  const due = Math.min(lastSuccessAt, now) + MIN_RENEWAL_INTERVAL_MS
  if (work.kind === 'waiting' && due > now) bringForward(turn, identity, due, 'renewal')
  else if (work.kind === 'waiting')
    enqueue(turn, identity, usable(identity, now) ? 'renewal' : 'on-demand', 'on-demand')
  else if (work.kind === 'idle') revive(turn, identity)
  else if (work.kind === 'queued') state.queue.push(identity, 'on-demand')
  hurryProbe(turn)
}

/** The CA reports a change. */
export function caChanged(turn: Turn, change: CAChange): void {
  const { identities } = turn.state
  if (change.kind === 'roots') {
    turn.actions.push({ kind: 'askRoots', isChanged: true })
    return
  }
  for (const id of change.identities ?? []) {
    const identity = identities.get(id)
    if (!identity) continue
    if (identity.work.kind === 'waiting') enqueue(turn, identity, 'renewal')
    // Behind all others that wait for a CA that is down, its turn could come hours later.
    else if (identity.work.kind === 'queued') hurry(turn, identity)
    else markOutdated(turn, identity)
  }
  if (change.identities) return
  for (const identity of identities.values()) {
    if (identity.work.kind === 'waiting') bringForward(turn, identity, timeToFollow(turn, identity), 'renewal')
    else markOutdated(turn, identity)
  }
}

/** It is kept fresh again, and idle again if nobody comes to watch it. */
function revive(turn: Turn, identity: Identity): void {
  const { state, now } = turn
  if (!isUsed(state, identity)) state.unused.add(identity, now)
  enqueue(turn, identity, 'on-demand')
}

/** The store may have an older certificate than the CA. */
function markOutdated(turn: Turn, identity: Identity): void {
  if (identity.work.kind === 'restoring') setWork(turn, identity, { ...identity.work, isOutdated: true })
}

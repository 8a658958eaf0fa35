/** Requests that are made sooner than planned: somebody waits, an operator wishes it, the reason of a failure is gone. */

import type { CAChange } from '../contract/ca-client.ts'
import { type Identity, usable } from '../state/identity.ts'
import { isUsed } from '../state/state.ts'
import { timeToFollow } from './answer.ts'
import { hurryProbe } from './ca.ts'
import { forgive } from './outage.ts'
import { bringForward, enqueue, reasonOf, setWork } from './plan.ts'
import { hurryShared } from './refusals.ts'
import { MIN_RENEWAL_INTERVAL_MS } from './renewal-time.ts'
import type { Step } from './step.ts'

/** The retry delay of a failed request while somebody waits, however often they ask. */
const HURRIED_RETRY_MS = 10_000

/** Somebody waits for it, and it has no certificate or fails to renew the one that it has. */
export function hurry(step: Step, identity: Identity): void {
  const { state, now } = step
  const { work, health, lastFailure } = identity
  if (work.kind === 'queued') {
    state.queue.push(identity, usable(identity, now) ? 'renewal' : 'on-demand')
    hurryProbe(step)
  } else if (work.kind === 'idle') revive(step, identity)
  else if (health.kind === 'failing' && lastFailure) {
    hurryShared(step, identity)
    const due = Math.max(now, Math.min(lastFailure.at, now) + HURRIED_RETRY_MS)
    bringForward(step, identity, due, reasonOf(step, identity, 'on-demand'))
  } else if (work.kind === 'restoring' && work.urgency !== 'on-demand') {
    setWork(step, identity, { ...work, urgency: 'on-demand' })
    state.restoring.raise(identity, 'on-demand')
  }
}

/** The reason for the CA's refusal may be gone: the identity starts again, as if it were new. */
export function retryNow(step: Step, identity: Identity): void {
  if (identity.work.kind !== 'waiting') return
  forgive(identity)
  if (identity.health.kind === 'failing') identity.health = { ...identity.health, contradictions: 0 }
  if (!usable(identity, step.now) || identity.health.kind === 'failing')
    enqueue(step, identity, reasonOf(step, identity, 'first'))
}

/** An operator wishes it. */
export function renewNow(step: Step, identity: Identity): void {
  const { now } = step
  const { work, lastSuccessAt = 0 } = identity
  const due = Math.min(lastSuccessAt, now) + MIN_RENEWAL_INTERVAL_MS
  if (work.kind === 'waiting' && due > now) bringForward(step, identity, due, 'operator')
  else if (work.kind === 'waiting' || work.kind === 'queued') enqueue(step, identity, 'operator', 'on-demand')
  else if (work.kind === 'idle') revive(step, identity)
  hurryProbe(step)
}

/** The CA reports a change. */
export function caChanged(step: Step, change: CAChange): void {
  const { identities } = step.state
  if (change.kind === 'roots') {
    step.actions.push({ kind: 'askRoots', isChanged: true })
    return
  }
  for (const id of change.identities ?? []) {
    const identity = identities.get(id)
    if (!identity) continue
    if (identity.work.kind === 'waiting') enqueue(step, identity, 'ca-changed', 'renewal')
    // Its turn could come hours later, behind all others that wait for a CA that is down.
    else if (identity.work.kind === 'queued') hurry(step, identity)
    else markOutdated(step, identity)
  }
  if (change.identities) return
  for (const identity of identities.values()) {
    if (identity.work.kind === 'waiting') bringForward(step, identity, timeToFollow(step, identity), 'ca-changed')
    else markOutdated(step, identity)
  }
}

/** It is kept fresh again, and idle again if nobody comes to watch it. */
function revive(step: Step, identity: Identity): void {
  const { state, now } = step
  if (!isUsed(state, identity)) state.unused.add(identity, now)
  enqueue(step, identity, 'on-demand')
}

/** The store may have an older certificate than the CA. */
function markOutdated(step: Step, identity: Identity): void {
  if (identity.work.kind === 'restoring') setWork(step, identity, { ...identity.work, isOutdated: true })
}

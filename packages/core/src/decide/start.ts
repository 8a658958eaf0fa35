/** Starts the requests that may start now. */

import type { Identity, Request, Urgency } from '../state/identity.ts'
import { limitOf } from './ca.ts'
import { setWork } from './plan.ts'
import { renewalPhase } from './renewal-time.ts'
import { report, type Turn } from './turn.ts'

/** Reads from the store at once: libuv has four threads. */
const MAX_RESTORING = 8

/** Starts what may start now. Runs after every event. */
export function startNext(turn: Turn): void {
  const { queue, restoring } = turn.state
  for (let next = queue.take(limitOf(turn)); next; next = queue.take(limitOf(turn))) start(turn, next.key, next.urgency)
  for (let next = restoring.take(MAX_RESTORING); next; next = restoring.take(MAX_RESTORING))
    turn.actions.push({ kind: 'restore', identity: next.key, from: 'store' })
}

/** One request finds out whether a CA without room has some by now. */
export function probePause(turn: Turn): void {
  const { ca, queue } = turn.state
  if (ca.awaitsRoots !== undefined || ca.pause.isOver) return
  const next = queue.takeMostUrgent()
  if (next) start(turn, next.key, next.urgency)
}

/** Sends a request; that of a CA that is down is the probe. */
function start(turn: Turn, identity: Identity, urgency: Urgency): void {
  const { state, policy, now } = turn
  if (identity.work.kind !== 'queued') throw new TypeError(`Cannot fetch ${identity.id}: it is not queued`)
  report(turn, identity.id, { kind: 'csr-sent', reason: identity.work.reason })
  const request: Request = {
    of: identity,
    urgency,
    sentAt: now,
    connectWithinMs: state.ca.absence.started(now, identity),
    ttlSeconds: state.ttl.of(identity.id),
    tokenFile: identity.tokenFile,
    wish: identity.wish,
    phase: renewalPhase(identity.phase, policy.random()),
  }
  setWork(turn, identity, { kind: 'fetching', request })
  turn.actions.push({ kind: 'fetch', request })
}

/** Starts the requests that may start now. */

import { type Identity, lastsUntil, type Request, type Urgency, usable } from '../state/identity.ts'
import { limitOf } from './ca.ts'
import { setWork } from './plan.ts'
import { renewalSlot } from './renewal-time.ts'
import { report, type Step } from './step.ts'

/** Reads from the store at once: libuv has four threads. */
const MAX_RESTORING = 8

/** Starts what may start now. Runs after every event. */
export function startNext(step: Step): void {
  const { queue, restoring } = step.state
  for (let next = queue.take(limitOf(step)); next; next = queue.take(limitOf(step))) start(step, next.key, next.urgency)
  for (let next = restoring.take(MAX_RESTORING); next; next = restoring.take(MAX_RESTORING))
    step.actions.push({ kind: 'restore', identity: next.key, from: 'store' })
}

/** One request finds out whether a CA without room has some by now. */
export function probePause(step: Step): void {
  const { ca, queue } = step.state
  if (ca.awaitsRoots !== undefined || ca.pause.isOver) return
  const next = queue.takeMostUrgent()
  if (next) start(step, next.key, next.urgency)
}

/** Sends a request; that of a CA that is down is the probe. */
function start(step: Step, identity: Identity, urgency: Urgency): void {
  const { state, policy, now } = step
  if (identity.work.kind !== 'queued') throw new TypeError(`Cannot fetch ${identity.id}: it is not queued`)
  report(step, identity.id, { kind: 'csr-sent', reason: identity.work.reason })
  const request: Request = {
    of: identity,
    urgency,
    sentAt: now,
    connectWithinMs: state.ca.absence.started(now, identity),
    ttlSeconds: state.ttl.of(identity.id),
    tokenFile: identity.tokenFile,
    // A certificate is there and one is asked for on demand: an operator wishes another one now.
    replaces: urgency === 'on-demand' ? undefined : replacedBy(step, identity),
    wish: identity.wish,
    slot: renewalSlot(identity.slot, policy.random()),
  }
  setWork(step, identity, { kind: 'fetching', request })
  step.actions.push({ kind: 'fetch', request })
}

/** Nothing where the one in use is worth little by now: clients refuse it, or other nodes drop its root, which was given up. */
function replacedBy({ state: { bundles }, now }: Step, identity: Identity): Request['replaces'] {
  const notAfter = lastsUntil(identity, now)
  const { id, health } = identity
  const { root: { fingerprint = '' } = {}, clientRefusal } = usable(identity, now) ?? {}
  if (
    notAfter === undefined ||
    clientRefusal !== undefined ||
    (bundles.holderOf(id, fingerprint)?.isGivenUp(fingerprint) ?? true)
  )
    return undefined
  return { notAfter, ...(health.kind === 'failing' && { failingSince: health.since }) }
}

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

/** One request probes whether the CA has room again. */
export function probePause(step: Step): void {
  const { ca, queue } = step.state
  if (ca.awaitsRoots !== undefined || ca.pause.isOver) return
  const next = queue.takeMostUrgent()
  if (next) start(step, next.key, next.urgency)
}

/** Sends a request; while the CA is down, it is the probe. */
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
    // An on-demand request despite a certificate: an operator wishes a new one now.
    replaces: urgency === 'on-demand' ? undefined : replacedBy(step, identity),
    wish: identity.wish,
    slot: renewalSlot(identity.slot, policy.random()),
  }
  setWork(step, identity, { kind: 'fetching', request })
  step.actions.push({ kind: 'fetch', request })
}

/** `undefined` if the certificate in use is worth little: clients refuse it, or its root was given up and other nodes drop it. */
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

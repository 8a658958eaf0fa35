/** The plan of each identity: its next request, from the wait through the queue to the CA, and what brings it forward. */

import {
  type Identity,
  lastsUntil,
  type Reason,
  type Request,
  type Urgency,
  usable,
  type Work,
} from '../state/identity.ts'
import { armWake, isUsed, type State } from '../state/state.ts'
import { backoff } from '../time/backoff.ts'
import { limitOf } from './ca.ts'
import { type Remaining, renewalSlot, retryTime } from './renewal-time.ts'
import { report, type Step } from './step.ts'

/** Backoffs up to four times the shortest (2 s); and how many more short ones a CA gets that does not know the identity yet: about 17 s. */
const SHORT_WAITS = 3
const MORE_SHORT_WAITS = 7
/** Reads from the store at once: libuv has four threads. */
const MAX_RESTORING = 8

/** Changes the identity's work: it leaves the queue of its former work; an end (idle, forgotten) aborts its request. */
export function setWork({ state, actions }: Step, identity: Identity, work: Work): void {
  const before = identity.work
  identity.work = work
  if (before.kind === 'queued' && work.kind !== 'queued') state.queue.delete(identity)
  if (before.kind === 'restoring' && work.kind !== 'restoring') state.restoring.delete(identity)
  if (before.kind === 'fetching' && (work.kind === 'idle' || work.kind === 'forgotten'))
    actions.push({ kind: 'abort', request: before.request, reason: new Error(`${identity.id} is no longer wanted`) })
  armWake(state, identity)
}

/** Plans a request at `due`, milliseconds since the epoch, unless other work comes first. */
export function wait(step: Step, identity: Identity, due: number, reason: Reason): void {
  setWork(step, identity, { kind: 'waiting', due, reason })
}

/** Queues a request, which goes out as soon as the CA has room. Default of `urgency`: by whether it has a certificate. */
export function enqueue(step: Step, identity: Identity, reason: Reason, urgency?: Urgency): void {
  setWork(step, identity, { kind: 'queued', reason })
  const inUse = usable(identity, step.now)
  const lacking = reason === 'on-demand' ? reason : 'first'
  const rank = urgency ?? (inUse ? 'renewal' : lacking)
  // Failed identities take turns: one that the CA never answers must not always come first.
  step.state.queue.push(identity, rank, rank === 'retry' ? undefined : inUse?.secret.notAfter)
}

/** Brings a planned request forward, and returns whether it did; an earlier one stays as planned. */
export function bringForward(step: Step, identity: Identity, due: number, reason: Reason): boolean {
  const isLater = identity.work.kind === 'waiting' && due < identity.work.due
  if (isLater) wait(step, identity, due, reason)
  return isLater
}

/** Plans a retry after `delayMs`, or sooner if its certificate is running out. */
export function retryAfter(step: Step, identity: Identity, delayMs: number): void {
  const { now, policy } = step
  const inUse = usable(identity, now)
  const due = retryTime({ now, notAfter: inUse?.secret.notAfter }, delayMs, policy.retry.minMs)
  report(step, identity.id, { kind: 'retry-planned', at: due })
  wait(step, identity, due, reasonOf(step, identity, 'first'))
}

/**
 * The wait after one more failure of this identity, milliseconds. `isNew`: the CA may not know it yet, as istiod may not
 * know a pod that was just scheduled, so the wait stays short at first.
 */
export function nextBackoff({ policy: { retry, random } }: Step, identity: Identity, isNew = false): number {
  const failures = ++identity.backoffs
  const counted = isNew ? Math.max(Math.min(failures, SHORT_WAITS), failures - MORE_SHORT_WAITS) : failures
  return backoff(counted, retry, random())
}

/** The remaining life of its certificate; nothing without one. */
export function remainingOf({ now }: Step, identity: Identity): Remaining {
  return { now, notAfter: usable(identity, now)?.secret.notAfter ?? now }
}

/** Why its next request is made: what led to the planned one or, without a certificate, `lacking`. */
export function reasonOf(step: Step, identity: Identity, lacking = firstReason(step, identity)): Reason {
  const { work } = identity
  if (!usable(identity, step.now)) return lacking
  const planned = work.kind === 'fetching' ? work.request.reason : 'reason' in work ? work.reason : 'renewal'
  return planned === 'first' || planned === 'on-demand' ? 'renewal' : planned
}

/** The reason of a request for an identity without a certificate. */
export function firstReason({ state }: Step, identity: Identity): 'on-demand' | 'first' {
  return isUsed(state, identity) ? 'on-demand' : 'first'
}

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
  // The most urgent one, however many run.
  const next = queue.take(Number.POSITIVE_INFINITY)
  if (next) start(step, next.key, next.urgency)
}

/** Sends a request; while the CA is down, it is the probe. */
function start(step: Step, identity: Identity, urgency: Urgency): void {
  const { state, policy, now } = step
  if (identity.work.kind !== 'queued') throw new TypeError(`Cannot fetch ${identity.id}: it is not queued`)
  const { reason } = identity.work
  report(step, identity.id, { kind: 'csr-sent', reason })
  const request: Request = {
    of: identity,
    reason,
    urgency,
    sentAt: now,
    connectWithinMs: state.ca.absence.started(now, identity),
    ttlSeconds: ttlOf(state, identity),
    tokenFile: identity.tokenFile,
    // An on-demand request despite a certificate: an operator wishes a new one now.
    replaces: urgency === 'on-demand' ? undefined : replacedBy(step, identity),
    wish: identity.wish,
    slot: renewalSlot(identity.slot, policy.random()),
  }
  setWork(step, identity, { kind: 'fetching', request })
  step.actions.push({ kind: 'fetch', request })
}

/** The lifetime to ask for, seconds. */
export function ttlOf({ ttlSeconds }: State, { wish, loweredTtlSeconds }: Identity): number {
  return loweredTtlSeconds ?? wish.ttlSeconds ?? ttlSeconds
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

/** The plan of each identity: its next request, and its work until then. */

import {
  hasFailedAlone,
  type Identity,
  type Reason,
  type Request,
  type Urgency,
  usable,
  type Work,
} from '../state/identity.ts'
import { armWake, isUsed } from '../state/state.ts'
import { backoff } from '../time/backoff.ts'
import { type Remaining, retryTime } from './renewal-time.ts'
import { report, type Step } from './step.ts'

/** Backoffs up to four times the shortest (2 s); and how many more short ones a CA gets that does not know the identity yet: about 17 s. */
const SHORT_WAITS = 3
const MORE_SHORT_WAITS = 7

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

/** The time that it waited for has come. */
export function fallDue(step: Step, identity: Identity, reason: Reason): void {
  const first = reason === 'on-demand' ? reason : 'first'
  const urgency = usable(identity, step.now) ? 'renewal' : first
  enqueue(step, identity, reason, hasFailedAlone(identity) ? 'retry' : urgency)
}

/** Queues a request, which goes out as soon as the CA has room. */
export function enqueue(
  step: Step,
  identity: Identity,
  reason: Reason,
  urgency: Urgency = reason === 'new-root' ? 'renewal' : reason,
): void {
  setWork(step, identity, { kind: 'queued', reason })
  // Failed identities take turns: one that the CA never answers must not always come first.
  const deadline = urgency === 'retry' ? undefined : usable(identity, step.now)?.secret.notAfter
  step.state.queue.push(identity, urgency, deadline)
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
  wait(step, identity, due, inUse ? 'renewal' : 'first')
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

/** The reason of a request for an identity without a certificate. */
export function firstReason({ state }: Step, identity: Identity): 'on-demand' | 'first' {
  return isUsed(state, identity) ? 'on-demand' : 'first'
}

/** Whether it is still the request that its identity waits for: forgetting wins over a late answer. */
export function isCurrent(request: Request): boolean {
  const { work } = request.of
  return work.kind === 'fetching' && work.request === request
}

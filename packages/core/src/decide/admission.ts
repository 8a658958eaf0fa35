/** Which identities are kept: those that are pinned always, others while there is room. */

import { type CertificateWish, NO_WISH } from '../contract/certificate-wish.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { type Identity, type Keep, newIdentity, OK, usable } from '../state/identity.ts'
import { armWake, isUsed } from '../state/state.ts'
import { forgetAbsence } from './ca.ts'
import { hurry, retryNow } from './hurry.ts'
import { enqueue, setWork } from './plan.ts'
import { forgetOwnRoots } from './roots.ts'
import { clear } from './serving.ts'
import { report, type Step } from './step.ts'
import { changeWish } from './wish.ts'

/** Why an identity is gone or, if it is pinned and idle, no longer kept fresh. */
type End = 'forgotten' | 'idle' | 'evicted'

/** Keeps it until `remove`, whether there is room or not. It keeps its certificate, and a removal is cancelled. */
export function pin(step: Step, id: SpiffeId, tokenFile: string | undefined, wish: CertificateWish): void {
  const present = step.state.identities.get(id)
  if (!present) {
    makeRoom(step)
    admit(step, id, 'pinned', { tokenFile, wish })
    return
  }
  if (present.keep.kind === 'removed') report(step, id, { kind: 'kept' })
  if (present.keep.kind !== 'pinned') setKeep(step, present, { kind: 'pinned' })
  changeWish(step, present, wish)
  if (tokenFile === present.tokenFile) return
  present.tokenFile = tokenFile
  retryNow(step, present)
}

/** Forgets it after the grace period, or sooner if it is unused and its room is needed. */
export function remove(step: Step, identity: Identity): void {
  if (identity.keep.kind !== 'pinned') return
  const until = step.now + step.policy.removalGraceMs
  setKeep(step, identity, { kind: 'removed', until })
  report(step, identity.id, { kind: 'removed', until })
  evictAndAdmit(step)
}

/** Somebody waits for it. A new one is admitted while it is used, once there is room. */
export function ask(step: Step, id: SpiffeId): void {
  const present = step.state.identities.get(id)
  if (present) hurryIfLacking(step, present)
  else if (makeRoom(step)) admit(step, id, 'on-demand', NOTHING_SAID)
  else reject(step, id)
}

export function watched(step: Step, identity: Identity): void {
  noteUse(step, identity)
  hurryIfLacking(step, identity)
}

export function unwatched(step: Step, id: SpiffeId): void {
  const { identities, rejected } = step.state
  const identity = identities.get(id)
  if (identity) noteUse(step, identity)
  rejected.delete(id)
  evictAndAdmit(step)
}

/** Forgets it at once. */
export function drop(step: Step, identity: Identity): void {
  end(step, identity, 'forgotten')
}

/** Its grace period is over. */
export function endRemoved(step: Step, identity: Identity): void {
  if (identity.keep.kind === 'removed' && identity.keep.until <= step.now) end(step, identity, 'forgotten')
}

/** Ends identities that were unused for too long. */
export function endIdle(step: Step): void {
  const { unused } = step.state
  for (let idle = unused.takeIdle(step.now); idle; idle = unused.takeIdle(step.now)) end(step, idle, 'idle')
}

/** Forgets all of them, and admits none in their place. */
export function dropAll(step: Step): void {
  const { state } = step
  state.isClosed = true
  for (const identity of [...state.identities.values()]) end(step, identity, 'forgotten')
}

const NOTHING_SAID = { tokenFile: undefined, wish: NO_WISH }

function admit(
  step: Step,
  id: SpiffeId,
  kind: 'pinned' | 'on-demand',
  said: Pick<Identity, 'tokenFile' | 'wish'>,
): void {
  const { state, policy, now } = step
  const identity = newIdentity(id, { addedAt: now, slot: policy.slotOf(id), ...said, keep: { kind } })
  state.identities.set(id, identity)
  state.rejected.delete(id)
  noteUse(step, identity)
  const urgency = kind === 'on-demand' ? 'on-demand' : 'first'
  if (!state.stored?.take(id)) {
    enqueue(step, identity, urgency)
    return
  }
  setWork(step, identity, { kind: 'restoring', urgency, isOutdated: false })
  state.restoring.push(identity, urgency)
}

function hurryIfLacking(step: Step, identity: Identity): void {
  if (!usable(identity, step.now) || identity.health.kind === 'failing') hurry(step, identity)
}

function setKeep(step: Step, identity: Identity, keep: Keep): void {
  identity.keep = keep
  noteUse(step, identity)
  armWake(step.state, identity)
}

/** Call when it is new, kept for another reason, watched, or no longer so. */
function noteUse({ state, now }: Step, identity: Identity): void {
  if (isUsed(state, identity)) state.unused.delete(identity)
  else state.unused.add(identity, now)
}

/** It is admitted once there is room, while somebody watches it. */
function reject(step: Step, id: SpiffeId): void {
  const { state, policy } = step
  if (state.watched.has(id)) state.rejected.add(id)
  report(step, id, { kind: 'no-room', maxIdentities: policy.maxIdentities })
}

/**
 * Call after an identity became unused or was forgotten. Evicts down to `maxIdentities`, which pinned identities may
 * exceed, then admits rejected identities that are still watched.
 */
function evictAndAdmit(step: Step): void {
  const { state, policy } = step
  if (state.isClosed) return
  evictTo(step, policy.maxIdentities)
  for (const id of state.rejected) {
    if (!makeRoom(step)) return
    admit(step, id, 'on-demand', NOTHING_SAID)
  }
}

/** Evicts the longest unused until there is room for one more; `false` if there is none. */
function makeRoom(step: Step): boolean {
  return evictTo(step, step.policy.maxIdentities - 1)
}

function evictTo(step: Step, most: number): boolean {
  const { identities, unused } = step.state
  while (identities.size > most) {
    const first = unused.firstToGo()
    if (!first) return false
    end(step, first, 'evicted')
  }
  return true
}

function end(step: Step, identity: Identity, reason: End): void {
  if (reason === 'idle' && identity.keep.kind === 'pinned') stop(step, identity, 'idle', 'idle')
  else forget(step, identity, reason)
  // Eviction has made room for somebody already.
  if (reason !== 'evicted') evictAndAdmit(step)
}

function forget(step: Step, identity: Identity, reason: End): void {
  step.state.identities.delete(identity.id)
  step.state.unused.delete(identity)
  stop(step, identity, 'forgotten', reason)
  step.state.wakes.delete(identity)
  forgetOwnRoots(step, identity.id)
  step.actions.push({ kind: 'serve', id: identity.id })
}

/** Stops its work and wipes all of it; an idle one starts again when somebody watches it. */
function stop(step: Step, identity: Identity, kind: 'idle' | 'forgotten', reason: End): void {
  report(step, identity.id, { kind: 'withdrawn', reason })
  setWork(step, identity, { kind })
  identity.health = OK
  forgetAbsence(step)
  identity.loweredTtlSeconds = undefined
  step.actions.push({ kind: 'forget', id: identity.id })
  clear(step, identity)
}

/** Which identities are held: those that are pinned always, others while there is room. */

import { type CertificateWish, NO_WISH } from '../contract/certificate-wish.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { type Identity, type Keep, newIdentity, OK, usable } from '../state/identity.ts'
import { armWake, isUsed } from '../state/state.ts'
import { hurry, retryNow } from './hurry.ts'
import { enqueue, setWork } from './plan.ts'
import { forgetOwnRoots } from './roots.ts'
import { clear } from './serving.ts'
import { report, type Turn } from './turn.ts'
import { changeWish } from './wish.ts'

/** So many identities that were rejected for want of room are remembered. */
const MAX_REJECTED = 10_000

/** Why an identity is no longer held or, if it is pinned and idle, no longer kept fresh. */
type End = 'forgotten' | 'idle' | 'evicted'

/** Holds it until `remove`, whether there is room or not. It keeps its certificate, and a removal is cancelled. */
export function pin(turn: Turn, id: SpiffeId, tokenFile: string | undefined, wish: CertificateWish): void {
  const present = turn.state.identities.get(id)
  if (!present) {
    makeRoom(turn)
    hold(turn, id, 'pinned', { tokenFile, wish })
    return
  }
  if (present.keep.kind === 'removed') report(turn, id, { kind: 'kept' })
  if (present.keep.kind !== 'pinned') setKeep(turn, present, { kind: 'pinned' })
  changeWish(turn, present, wish)
  if (tokenFile === present.tokenFile) return
  present.tokenFile = tokenFile
  retryNow(turn, present)
}

/** It is forgotten after the grace period; until then it is held, unless it is unused and its room is needed. */
export function remove(turn: Turn, id: SpiffeId): void {
  const identity = turn.state.identities.get(id)
  if (identity?.keep.kind !== 'pinned') return
  const until = turn.now + turn.policy.removalGraceMs
  setKeep(turn, identity, { kind: 'removed', until })
  report(turn, id, { kind: 'removed', until })
  evictAndAdmit(turn)
}

/** Somebody waits for it. One that is not held is held while it is used and there is room, or once there is. */
export function ask(turn: Turn, id: SpiffeId): void {
  const present = turn.state.identities.get(id)
  if (present) hurryIfLacking(turn, present)
  else if (makeRoom(turn)) hold(turn, id, 'on-demand', NOTHING_SAID)
  else reject(turn, id)
}

export function watched(turn: Turn, id: SpiffeId): void {
  const identity = turn.state.identities.get(id)
  if (!identity) return
  noteUse(turn, identity)
  hurryIfLacking(turn, identity)
}

export function unwatched(turn: Turn, id: SpiffeId): void {
  const identity = turn.state.identities.get(id)
  if (identity) noteUse(turn, identity)
  evictAndAdmit(turn)
}

/** Lets it go at once. */
export function drop(turn: Turn, id: SpiffeId): void {
  const identity = turn.state.identities.get(id)
  if (identity) end(turn, identity, 'forgotten')
}

/** Its grace period is over. */
export function endRemoved(turn: Turn, identity: Identity): void {
  if (identity.keep.kind === 'removed' && identity.keep.until <= turn.now) end(turn, identity, 'forgotten')
}

/** Ends those that nobody has used for too long. */
export function endIdle(turn: Turn): void {
  const { unused } = turn.state
  for (let idle = unused.takeIdle(turn.now); idle; idle = unused.takeIdle(turn.now)) end(turn, idle, 'idle')
}

/** Forgets all of them, and admits none in their place. */
export function dropAll(turn: Turn): void {
  const { state } = turn
  state.isClosed = true
  state.rejected.clear()
  for (const identity of [...state.identities.values()]) end(turn, identity, 'forgotten')
}

const NOTHING_SAID = { tokenFile: undefined, wish: NO_WISH }

function hold(
  turn: Turn,
  id: SpiffeId,
  kind: 'pinned' | 'on-demand',
  said: Pick<Identity, 'tokenFile' | 'wish'>,
): void {
  const { state, policy, now } = turn
  const identity = newIdentity(id, { addedAt: now, phase: policy.phaseOf(id), ...said, keep: { kind } })
  state.identities.set(id, identity)
  state.rejected.delete(id)
  noteUse(turn, identity)
  const urgency = kind === 'on-demand' ? 'on-demand' : 'first'
  if (!state.stored?.take(id)) {
    enqueue(turn, identity, urgency)
    return
  }
  setWork(turn, identity, { kind: 'restoring', urgency, isOutdated: false })
  state.restoring.push(identity, urgency)
}

function hurryIfLacking(turn: Turn, identity: Identity): void {
  if (!usable(identity, turn.now) || identity.health.kind === 'failing') hurry(turn, identity)
}

function setKeep(turn: Turn, identity: Identity, keep: Keep): void {
  identity.keep = keep
  noteUse(turn, identity)
  armWake(turn.state, identity)
}

/** Call when it is new, kept for another reason, watched, or no longer so. */
function noteUse({ state, now }: Turn, identity: Identity): void {
  if (isUsed(state, identity)) state.unused.delete(identity)
  else state.unused.add(identity, now)
}

/** As long as somebody watches it, it is admitted once there is room. */
function reject(turn: Turn, id: SpiffeId): void {
  const { state, policy } = turn
  state.rejected.add(id)
  if (state.rejected.size > MAX_REJECTED) {
    const [oldest = id] = state.rejected
    state.rejected.delete(oldest)
  }
  report(turn, id, { kind: 'no-room', maxIdentities: policy.maxIdentities })
}

/**
 * Call after an identity became unused or was forgotten. Evicts down to `maxIdentities`, which pinned identities may
 * exceed, then admits rejected identities that are still watched.
 */
function evictAndAdmit(turn: Turn): void {
  const { state, policy } = turn
  if (state.isClosed) return
  evictTo(turn, policy.maxIdentities)
  for (const id of state.rejected) {
    const isWanted = state.watched.has(id)
    if (isWanted && !makeRoom(turn)) return
    state.rejected.delete(id)
    if (isWanted) hold(turn, id, 'on-demand', NOTHING_SAID)
  }
}

/** Evicts those that were unused for longest until there is room for one more; `false` if there is none. */
function makeRoom(turn: Turn): boolean {
  return evictTo(turn, turn.policy.maxIdentities - 1)
}

function evictTo(turn: Turn, most: number): boolean {
  const { identities, unused } = turn.state
  while (identities.size > most) {
    const first = unused.firstToGo()
    if (!first) return false
    end(turn, first, 'evicted')
  }
  return true
}

function end(turn: Turn, identity: Identity, reason: End): void {
  if (reason === 'idle' && identity.keep.kind === 'pinned') stop(turn, identity, 'idle', 'idle')
  else forget(turn, identity, reason)
  // Eviction has made room for somebody already.
  if (reason !== 'evicted') evictAndAdmit(turn)
}

function forget(turn: Turn, identity: Identity, reason: End): void {
  turn.state.identities.delete(identity.id)
  turn.state.unused.delete(identity)
  stop(turn, identity, 'forgotten', reason)
  turn.state.wakes.delete(identity)
  forgetOwnRoots(turn, identity.id)
  turn.actions.push({ kind: 'withdraw', id: identity.id })
}

/** Nothing more is done for it, and nothing of it is kept; idle, until somebody watches it. */
function stop(turn: Turn, identity: Identity, kind: 'idle' | 'forgotten', reason: End): void {
  const { state, actions } = turn
  report(turn, identity.id, { kind: 'withdrawn', reason })
  setWork(turn, identity, { kind })
  identity.health = OK
  state.ttl.forget(identity.id)
  actions.push({ kind: 'forget', id: identity.id })
  clear(turn, identity)
}

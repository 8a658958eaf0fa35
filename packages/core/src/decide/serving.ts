/** Which certificate an identity serves: the old one stays until the new one can be used. */

import { type Identity, usable } from '../state/identity.ts'
import type { Issued } from '../state/issued.ts'
import { armWake } from '../state/state.ts'
import { release } from './bundle.ts'
import { firstReason } from './plan.ts'
import { report, type Turn } from './turn.ts'

/** Serves `issued` from `from` on (milliseconds since the epoch), at once if that has passed. A newer offer wins. */
export function offer(turn: Turn, identity: Identity, issued: Issued, from: number): void {
  dropUpcoming(turn, identity)
  if (from <= turn.now) serve(turn, identity, issued)
  else {
    identity.upcoming = { issued, from }
    armWake(turn.state, identity)
  }
}

/** Serves the one that waits from `from` on. */
export function hasten(turn: Turn, identity: Identity, from: number): void {
  const { upcoming } = identity
  if (!upcoming) return
  identity.upcoming = undefined
  offer(turn, identity, upcoming.issued, from)
}

/** The one that waits is not to be served. */
export function dropUpcoming(turn: Turn, identity: Identity): void {
  if (identity.upcoming) release(turn, identity.upcoming.issued)
  identity.upcoming = undefined
}

export function dropSpare(turn: Turn, identity: Identity): void {
  if (identity.spare) release(turn, identity.spare)
  identity.spare = undefined
}

/** Lets go of all that it has. */
export function clear(turn: Turn, identity: Identity): void {
  dropUpcoming(turn, identity)
  dropSpare(turn, identity)
  if (identity.current) release(turn, identity.current)
  identity.current = undefined
  identity.revoked = undefined
  identity.hasExpired = false
}

/** Call at the times of the identity: the one that waits takes its place, the one in use ends. */
export function passTime(turn: Turn, identity: Identity): void {
  const { now } = turn
  const { upcoming } = identity
  if (upcoming && upcoming.from <= now) {
    identity.upcoming = undefined
    serve(turn, identity, upcoming.issued)
  }
  if (identity.current && endOf(identity.current) <= now) expire(turn, identity)
}

/** A while ago a reader was refused the certificate in use, which seemed to have ended: it may have been the clock. */
export function serveAgain(turn: Turn, identity: Identity): void {
  if (usable(identity, turn.now)) turn.actions.push({ kind: 'serve', identity })
}

function serve(turn: Turn, identity: Identity, issued: Issued): void {
  const { current, spare, revoked } = identity
  // Peers refuse one that is revoked.
  const mayReturn = revoked ? [spare] : [current, spare]
  const former = [current, spare].filter(each => each !== undefined)
  const [next] = mayReturn
    .filter(each => each !== undefined)
    .filter(each => each.root.fingerprint === issued.root.fingerprint && endOf(each) > endOf(issued))
    .sort((a, b) => endOf(b) - endOf(a))
  identity.current = issued
  identity.spare = next
  identity.revoked = undefined
  identity.hasExpired = false
  turn.actions.push({ kind: 'serve', identity }, { kind: 'store', identity })
  for (const each of former) if (each !== next) release(turn, each)
  armWake(turn.state, identity)
}

function expire(turn: Turn, identity: Identity): void {
  const { state, actions, now } = turn
  const { spare, current } = identity
  if (spare && endOf(spare) > now) {
    identity.spare = undefined
    serve(turn, identity, spare)
    return
  }
  dropSpare(turn, identity)
  identity.current = undefined
  identity.revoked = undefined
  identity.hasExpired = true
  report(turn, identity.id, { kind: 'withdrawn', reason: 'expired' })
  actions.push({ kind: 'withdraw', id: identity.id })
  // A request that is still queued is as urgent as if there had never been one.
  if (identity.work.kind === 'queued') state.queue.push(identity, firstReason(turn, identity))
  if (current) release(turn, current)
}

function endOf({ secret }: Issued): number {
  return secret.notAfter
}

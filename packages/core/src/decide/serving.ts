/** Which certificate an identity serves: the old one stays until the new one can be used. */

import { type Identity, type Issued, usable, worthKeeping } from '../state/identity.ts'
import { armWake } from '../state/state.ts'
import { release } from './bundle.ts'
import { firstReason } from './plan.ts'
import { report, type Step } from './step.ts'

/** Whether `issued` may be served in the place of the one in use, if one is worth keeping. */
export function mayReplace(step: Step, identity: Identity, { root }: Issued): boolean {
  const { bundles } = step.state
  const inUse = worthKeeping(identity, step.now)
  if (!inUse) return true
  // Its root is no longer trusted: the leaf is worthless.
  if (!bundles.holderOf(identity.id, inUse.root.fingerprint)) return true
  // Every peer must know it first.
  return bundles.holderOf(identity.id, root.fingerprint)?.roots.isTrusted(root.fingerprint) ?? true
}

/** Serves `issued` from `from` on (milliseconds since the epoch), at once if that has passed. A newer offer wins. */
export function offer(step: Step, identity: Identity, issued: Issued, from: number): void {
  dropUpcoming(step, identity)
  if (from <= step.now) serve(step, identity, issued)
  else {
    identity.upcoming = { issued, from }
    armWake(step.state, identity)
  }
}

/** Serves the one that waits from `from` on. */
export function hasten(step: Step, identity: Identity, from: number): void {
  const { upcoming } = identity
  if (!upcoming) return
  identity.upcoming = undefined
  offer(step, identity, upcoming.issued, from)
}

/** Drops the certificate that waits. */
export function dropUpcoming(step: Step, identity: Identity): void {
  if (identity.upcoming) release(step, identity.upcoming.issued)
  identity.upcoming = undefined
}

export function dropSpare(step: Step, identity: Identity): void {
  if (identity.spare) release(step, identity.spare)
  identity.spare = undefined
}

/** Releases all its certificates. */
export function clear(step: Step, identity: Identity): void {
  dropUpcoming(step, identity)
  dropSpare(step, identity)
  if (identity.current) release(step, identity.current)
  identity.current = undefined
  identity.revoked = undefined
  identity.hasExpired = false
}

/** Call at the times of the identity: the one that waits takes its place, the one in use ends. */
export function passTime(step: Step, identity: Identity): void {
  const { now } = step
  const { upcoming } = identity
  if (upcoming && upcoming.from <= now) hasten(step, identity, now)
  if (identity.current && endOf(identity.current) <= now) expire(step, identity)
}

/** A while ago the certificate in use seemed to have ended, and a reader got nothing: the clock may have been wrong. */
export function serveAgain(step: Step, identity: Identity): void {
  if (usable(identity, step.now)) step.actions.push({ kind: 'serve', id: identity.id })
}

function serve(step: Step, identity: Identity, issued: Issued): void {
  const { current, spare, revoked } = identity
  const former = [current, spare].filter(each => each !== undefined)
  identity.spare = undefined
  for (const each of former) {
    // Peers refuse one that is revoked.
    const mayReturn = !(revoked && each === current) && each.root.fingerprint === issued.root.fingerprint
    if (mayReturn && endOf(each) > endOf(identity.spare ?? issued)) identity.spare = each
  }
  identity.current = issued
  identity.revoked = undefined
  identity.hasExpired = false
  step.actions.push({ kind: 'serve', id: identity.id }, { kind: 'store', identity })
  for (const each of former) if (each !== identity.spare) release(step, each)
  armWake(step.state, identity)
}

function expire(step: Step, identity: Identity): void {
  const { state, actions, now } = step
  const { spare, current } = identity
  if (spare && endOf(spare) > now) {
    identity.spare = undefined
    serve(step, identity, spare)
    return
  }
  dropSpare(step, identity)
  identity.current = undefined
  identity.revoked = undefined
  identity.hasExpired = true
  report(step, identity.id, { kind: 'withdrawn', reason: 'expired' })
  actions.push({ kind: 'serve', id: identity.id })
  // A queued request is now as urgent as for an identity that never had a certificate.
  if (identity.work.kind === 'queued') state.queue.push(identity, firstReason(step, identity))
  if (current) release(step, current)
}

function endOf({ secret }: Issued): number {
  return secret.notAfter
}

/** A certificate came from the disk: decides whether to use it, and when the CA is asked for another. */

import { CAError } from '../contract/ca-client.ts'
import type { Identity, Issued } from '../state/identity.ts'
import { faultOf } from '../x509/ca-answer-verifier.ts'
import { accept, renewalOf, timeToFollow } from './answer.ts'
import { bringForward, enqueue, wait } from './plan.ts'
import { MIN_RENEWAL_INTERVAL_MS, renewalTime, spreadTime } from './renewal-time.ts'
import { checkRevocation } from './revocation.ts'
import { offer } from './serving.ts'
import { type Found, type RestoreSource, report, type Step } from './step.ts'
import { followWish } from './wish.ts'

const WHAT = { store: 'stored', bootstrap: 'bootstrap' } as const

/** Uses the certificate found on disk, else reads the other source, else asks the CA. */
export function restored(step: Step, identity: Identity, from: RestoreSource, found: Found | string | undefined): void {
  const { state, actions } = step
  const { work } = identity
  if (work.kind !== 'restoring') {
    state.restoring.end('first')
    if (typeof found === 'object') actions.push({ kind: 'wipe', key: found.key })
    return
  }
  const issued = typeof found === 'object' ? takeFound(step, identity, from, found) : found
  if (typeof issued === 'string')
    report(step, identity.id, { kind: 'not-restored', reason: `the ${WHAT[from]} certificate: ${issued}` })
  const isUsable = typeof issued === 'object' && typeof found === 'object'
  if (!isUsable && from === 'store') {
    actions.push({ kind: 'restore', identity, from: 'bootstrap' })
    return
  }
  state.restoring.end('first')
  if (isUsable) useFound(step, identity, issued, found, work.isOutdated)
  else enqueue(step, identity, work.urgency)
}

function takeFound(step: Step, { id }: Identity, source: RestoreSource, found: Found): Issued | string {
  // A clock that was set back must not put off the renewal.
  const origin = { source, receivedAt: Math.min(found.receivedAt, step.now), slot: found.slot, wish: found.wish }
  // A stored answer is no evidence of which roots the CA has given up.
  const issued = accept(step, id, { ...found, offered: { ...found.offered, isWhole: false } }, origin)
  if (!(issued instanceof CAError)) return issued
  step.actions.push({ kind: 'wipe', key: found.key })
  return faultOf(issued)
}

/** Keeps the renewal time from before the restart; overdue renewals come soon, but spread out. */
function useFound(step: Step, identity: Identity, issued: Issued, found: Found, isOutdated: boolean): void {
  const { policy, now } = step
  const { source, receivedAt, slot, clientRefusal } = issued
  const { serialNumber, notBefore, notAfter } = issued.secret
  const { isProvisional } = found
  offer(step, identity, issued, notBefore)
  const planned = renewalTime({ usableFrom: Math.max(receivedAt, notBefore), notAfter }, policy.rotation, slot)
  const due = planned > now ? planned : spreadTime({ now, notAfter }, identity.slot)
  const followed = renewalOf(step, identity, issued, receivedAt, due)
  const renewAt = isProvisional ? now : followed.renewAt
  if (source === 'store') identity.lastSuccessAt = receivedAt
  if (clientRefusal !== undefined)
    report(step, identity.id, { kind: 'preflight-failed', reason: clientRefusal, isServed: true })
  const from = source === 'store' ? 'store' : 'bootstrap'
  report(step, identity.id, { kind: 'restored', from, serialNumber, notAfter, renewAt })
  wait(step, identity, renewAt, followed.reason)
  followWish(step, identity, found.wish)
  checkRevocation(step, identity)
  // A certificate that is not valid yet serves nobody: the CA may give a valid one.
  if (isProvisional || notBefore > now + MIN_RENEWAL_INTERVAL_MS) enqueue(step, identity, 'first', 'first')
  else if (isOutdated) bringForward(step, identity, timeToFollow(step, identity), 'ca-changed')
}

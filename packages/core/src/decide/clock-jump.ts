/** The order of work after a sleep, a stop or a clock that was set: the CA's roots first, then leaves, soonest expiry first. */

import { newest, usable } from '../state/identity.ts'
import type { ClockJump } from '../time/clock.ts'
import { retryFailing } from './outage.ts'
import { bringForward } from './plan.ts'
import { reportForAll, type Step } from './step.ts'
import { followWish } from './wish.ts'

/** Requests wait until the CA was asked for its roots. Credentials need no step here: they are read for each call. */
export function clockJumped(step: Step, { kind, ms }: ClockJump): void {
  const {
    state: { ca, identities, unused },
    now,
  } = step
  reportForAll(step, { kind: 'clock-jumped', how: kind, ms })
  if (kind === 'back') {
    unused.clockSetBack(now)
    ca.window.clockSetBack(ms)
    for (const { work } of identities.values()) if (work.kind === 'fetching') work.request.sentAt -= ms
    // A wait that the CA asked for lasts as long as it said.
    ca.pause = { ...ca.pause, since: ca.pause.since - ms, until: ca.pause.until - ms }
  }
  ca.awaitsRoots = ++ca.jumps
  step.actions.push({ kind: 'askRoots', isChanged: true, jump: ca.jumps })
}

/** Overdue identities are fetched, soonest expiry first; failing ones are retried, whatever their backoff. */
export function rootsAsked(step: Step, jump: number): void {
  const { state, now } = step
  const { ca, identities } = state
  if (jump !== ca.awaitsRoots) return
  ca.awaitsRoots = undefined
  ca.absence.clockJumped(now)
  state.nextWishAt = Math.min(state.nextWishAt, now)
  ca.lastCertificateAskedAt = Math.min(ca.lastCertificateAskedAt, now)
  for (const { fault } of ca.shared.values()) fault.clockJumped(now)
  retryFailing(step)
  // Its next request was planned by the clock as it was.
  for (const identity of identities.values()) {
    if (identity.health.kind === 'ok' && !usable(identity, now)) bringForward(step, identity, now, 'first')
    const last = newest(identity, now)
    if (last) followWish(step, identity, last.wish)
  }
}

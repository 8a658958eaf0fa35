/** Work that falls due without an event, and when. */

import { hasFailedAlone } from '../state/identity.ts'
import { armWake, type State } from '../state/state.ts'
import { endIdle, endRemoved } from './admission.ts'
import { lookAtAnnouncements } from './announcement.ts'
import { armBundle, removeDue } from './bundle.ts'
import { endPause, moreAt } from './ca.ts'
import { enqueue } from './plan.ts'
import { nextProbeOfShared, probeShared } from './refusals.ts'
import { passTime } from './serving.ts'
import type { Step } from './step.ts'

/** When `decide` is to be asked next without another event, milliseconds since the epoch; infinite if never. */
export function nextWake(state: State, now: number): number {
  const { wakes, bundleWakes, unused, clearStoreAt } = state
  const ofCA = Math.min(moreAt(state, now), nextProbeOfShared(state))
  return Math.min(wakes.nextAt, bundleWakes.nextAt, ofCA, unused.nextIdleAt, clearStoreAt)
}

/** Does all that is due. */
export function woke(step: Step): void {
  const { state, now } = step
  for (let bundle = state.bundleWakes.take(now); bundle; bundle = state.bundleWakes.take(now)) {
    removeDue(step, bundle)
    lookAtAnnouncements(step, bundle)
    armBundle(step, bundle)
  }
  for (let identity = state.wakes.take(now); identity; identity = state.wakes.take(now)) {
    endRemoved(step, identity)
    if (identity.work.kind === 'forgotten') continue
    passTime(step, identity)
    const { work } = identity
    if (work.kind === 'waiting' && work.due <= now)
      enqueue(step, identity, work.reason, hasFailedAlone(identity) ? 'retry' : undefined)
    armWake(state, identity)
  }
  endIdle(step)
  if (!state.ca.pause.isOver && state.ca.pause.until <= now) endPause(step)
  probeShared(step)
  if (state.clearStoreAt > now) return
  state.clearStoreAt = Number.POSITIVE_INFINITY
  step.actions.push({ kind: 'clearStore' })
}

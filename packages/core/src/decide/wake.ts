/** What falls due by itself, and when. */

import { armWake, type State } from '../state/state.ts'
import { endIdle, endRemoved } from './admission.ts'
import { lookAtAnnouncements } from './announcement.ts'
import { armBundle, removeDue } from './bundle.ts'
import { endPause, moreAt } from './ca.ts'
import { fallDue } from './plan.ts'
import { nextProbeOfShared, probeShared } from './refusals.ts'
import { passTime } from './serving.ts'
import type { Turn } from './turn.ts'

/** When `decide` is to be asked next without another event, milliseconds since the epoch; infinite if never. */
export function nextWake(state: State, now: number): number {
  const { wakes, bundleWakes, unused, clearStoreAt } = state
  const ofCA = Math.min(moreAt(state, now), nextProbeOfShared(state))
  return Math.min(wakes.nextAt, bundleWakes.nextAt, ofCA, unused.nextIdleAt, clearStoreAt)
}

/** Does all that is due. */
export function woke(turn: Turn): void {
  const { state, now } = turn
  for (let bundle = state.bundleWakes.take(now); bundle; bundle = state.bundleWakes.take(now)) {
    removeDue(turn, bundle)
    lookAtAnnouncements(turn, bundle)
    armBundle(turn, bundle)
  }
  for (let identity = state.wakes.take(now); identity; identity = state.wakes.take(now)) {
    endRemoved(turn, identity)
    if (identity.work.kind === 'forgotten') continue
    passTime(turn, identity)
    if (identity.work.kind === 'waiting' && identity.work.due <= now) fallDue(turn, identity, identity.work.reason)
    armWake(state, identity)
  }
  endIdle(turn)
  if (!state.ca.pause.isOver && state.ca.pause.until <= now) endPause(turn)
  probeShared(turn)
  if (state.clearStoreAt > now) return
  state.clearStoreAt = Number.POSITIVE_INFINITY
  turn.actions.push({ kind: 'clearStore' })
}

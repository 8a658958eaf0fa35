/** What falls due by itself, and when. */

import type { State } from '../state/state.ts'
import { armWake } from '../state/state.ts'
import { endIdle, endRemoved } from './admission.ts'
import { endPause, moreAt } from './ca.ts'
import { fallDue } from './plan.ts'
import { nextProbeOfShared, probeShared } from './refusals.ts'
import { passTime } from './serving.ts'
import type { Turn } from './turn.ts'

/** When `decide` is to be asked next without another event, milliseconds since the epoch; infinite if never. */
export function nextWake(state: State, now: number): number {
  return Math.min(
    state.wakes.next,
    moreAt(state, now),
    nextProbeOfShared(state),
    state.unused.nextIdleAt,
    state.clearStoreAt,
  )
}

/** Does all that is due. */
export function woke(turn: Turn): void {
  const { state, now } = turn
  for (let identity = state.wakes.takeDue(now); identity; identity = state.wakes.takeDue(now)) {
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

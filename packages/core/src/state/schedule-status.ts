/** The state of the schedule at one moment: requests that wait, are in flight, and are planned. */

import type { Identity, Urgency } from './identity.ts'
import type { State } from './state.ts'

/**
 * Why due requests wait: `rate-limited`, the CA had no room, and requests are paused; `ca-down`, one request at a time
 * probes it; `clock-jumped`, its roots are asked for first.
 */
export const PAUSE_REASONS = ['rate-limited', 'ca-down', 'clock-jumped'] as const

export type PauseReason = (typeof PAUSE_REASONS)[number]

export interface ScheduleStatus {
  /** Requests that wait for their turn, by rank: the first goes before the second, and so on. */
  readonly queued: Readonly<Record<Urgency, number>>
  /** Requests that the CA has not answered. */
  readonly inFlight: number
  /** How many may be in flight at once: it grows while the CA keeps up, and halves when it does not. */
  readonly window: number
  /** `until`: when the next request goes out, milliseconds since the epoch, where that is known. */
  readonly pause: { readonly reason: PauseReason; readonly until: number | undefined } | undefined
  /** When the CA as a whole began not to answer, milliseconds since the epoch; `undefined` while it answers. */
  readonly downSince: number | undefined
}

export function scheduleStatus({ ca, queue }: State): ScheduleStatus {
  return {
    queued: queue.depths(),
    inFlight: queue.running,
    window: ca.window.current,
    pause: pauseOf(ca),
    downSince: ca.absence.since,
  }
}

function pauseOf({ awaitsRoots, pause, absence: { nextProbeAt } }: State['ca']): ScheduleStatus['pause'] {
  if (awaitsRoots !== undefined) return { reason: 'clock-jumped', until: undefined }
  if (!pause.isOver) return { reason: 'rate-limited', until: pause.until }
  return nextProbeAt === undefined ? undefined : { reason: 'ca-down', until: nextProbeAt }
}

const MINUTES = 60
const MINUTE_MS = 60_000

/** How many requests fall due in each of the next 60 minutes, this minute first. */
export function plannedPerMinute(identities: Iterable<Identity>, now: number): readonly number[] {
  const planned = new Array<number>(MINUTES).fill(0)
  for (const { work } of identities) {
    if (work.kind !== 'waiting') continue
    const minute = Math.max(0, Math.floor((work.due - now) / MINUTE_MS))
    if (minute < MINUTES) planned[minute] = (planned[minute] ?? 0) + 1
  }
  return planned
}

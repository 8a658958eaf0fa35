/** Learns the CA's own condition from each answer and failure: it keeps up, has no room, is down, is back. */

import type { CAError } from '../contract/ca-client.ts'
import { isAbsence } from '../contract/ca-failure.ts'
import type { Request } from '../state/identity.ts'
import { countAgainst, endPause, requestedWait } from './ca.ts'
import { caIsBack } from './outage.ts'
import { reportForAll, type Step } from './step.ts'

/** The first pause for a CA that has no room and names no wait; it doubles each time. */
const MIN_PAUSE_MS = 500
const MAX_PAUSE_MS = 8_000

/** A request had its certificate. */
export function gaveCertificate(step: Step, { sentAt }: Request, waitedMs: number): void {
  const { ca } = step.state
  noteAnswer(step, sentAt)
  ca.window.granted(sentAt, step.now, waitedMs)
  ca.roomRefusals = 0
  if (!ca.pause.isOver && sentAt > ca.pause.since) endPause(step)
}

/** A request failed: its evidence about the CA counts for all. */
export function countFailure(step: Step, request: Request, failure: CAError, waitedMs: number): void {
  const {
    state: { ca },
    now,
  } = step
  const { sentAt } = request
  if (failure.local) {
    // A probe that did not reach the CA: the next identity probes it.
    if (ca.absence.nextProbeAt !== undefined) ca.absence.hurry(now)
  } else if (isAbsence(failure)) {
    ca.window.overloaded(sentAt, now)
    const opens = countAgainst(step, ca.absence, request, requestedWait(step, failure) ?? 0)
    if (opens) reportForAll(step, { kind: 'ca-down' })
  } else {
    noteAnswer(step, sentAt)
    if (failure.code === 'rate-limited') refusedForRoom(step, failure, sentAt)
    else ca.window.refused(waitedMs)
  }
}

function noteAnswer(step: Step, sentAt: number): void {
  const { ca } = step.state
  const downSince = ca.absence.contradicted(sentAt, step.now)
  if (downSince === undefined) return
  ca.window.restart(step.now)
  caIsBack(step, downSince)
}

function refusedForRoom(step: Step, failure: CAError, sentAt: number): void {
  const {
    state: { ca },
    policy,
    now,
  } = step
  // Requests that were sent before the pause say nothing new, and a probe must not make it longer.
  if (!ca.pause.isOver || sentAt <= ca.pause.since) return
  ca.window.overloaded(sentAt, now)
  const wait =
    requestedWait(step, failure) ?? Math.min(MIN_PAUSE_MS * 2 ** Math.min(ca.roomRefusals++, 30), MAX_PAUSE_MS)
  // Nodes that were refused together must not come back together.
  ca.pause = { since: now, until: now + wait * (1 + policy.random()), isOver: false }
}

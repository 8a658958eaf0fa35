/** How much is asked of the CA at once, and when nothing is asked at all. */

import type { CAError } from '../contract/ca-client.ts'
import { failingWith, type Identity, isAlone, type Request, usable } from '../state/identity.ts'
import type { SharedFault } from '../state/shared-fault.ts'
import type { State } from '../state/state.ts'
import type { Step } from './step.ts'

/** How many requests may be in flight now. */
export function limitOf({ state: { ca, queue }, now }: Step): number {
  if (ca.awaitsRoots !== undefined || !ca.pause.isOver) return 0
  const { nextProbeAt } = ca.absence
  if (nextProbeAt === undefined) return ca.window.current
  return now < nextProbeAt ? 0 : Math.min(queue.running + 1, ca.window.max)
}

/** When more may be asked, without another event; infinite if that is not known. */
export function moreAt({ ca, queue }: State, now: number): number {
  const { nextProbeAt } = ca.absence
  if (!ca.pause.isOver) return ca.pause.until
  return nextProbeAt !== undefined && nextProbeAt > now && queue.waiting > 0 ? nextProbeAt : Number.POSITIVE_INFINITY
}

/** How long the CA asks to wait, bounded: it must not silence a node until its certificates have ended. */
export function requestedWait({ policy }: Step, { retryAfterMs }: CAError): number | undefined {
  return retryAfterMs !== undefined && retryAfterMs >= 0 ? Math.min(retryAfterMs, policy.retry.maxMs) : undefined
}

/** Somebody waits: a CA that is down is probed soon. */
export function hurryProbe({ state: { ca, queue }, now }: Step): void {
  if (queue.running === 0 && ca.absence.nextProbeAt !== undefined) ca.absence.hurry(now)
}

/** Forgets that the CA is down once no identity is left that fails for lack of it. */
export function forgetAbsence({ state: { ca, queue, identities, isClosed } }: Step): void {
  if (ca.absence.since === undefined || queue.waiting > 0 || queue.running > 0 || isClosed) return
  for (const identity of identities.values()) if (failingWith(identity) === 'absence') return
  ca.absence.forget()
}

export function endPause({ state: { ca } }: Step): void {
  ca.pause = { ...ca.pause, isOver: true }
}

/** Counts a failed request for a cause that many may share. `true` if that makes it one. */
export function countAgainst(
  step: Step,
  fault: SharedFault,
  { of, sentAt }: Request,
  requestedWaitMs: number,
): boolean {
  return fault.failed({
    of,
    isAlone: isAlone(of),
    startedAt: sentAt,
    now: step.now,
    leastLeftMs: () => leastLeftMs(step),
    requestedWaitMs,
    random: step.policy.random(),
  })
}

/** The shortest remaining life of a certificate among identities that wait for the CA; 0 without a certificate. */
function leastLeftMs({ state, now }: Step): number {
  let least = Number.POSITIVE_INFINITY
  for (const identity of state.identities.values())
    if (waitsForCA(identity))
      least = Math.min(least, usable(identity, now)?.secret.notAfter ?? Number.NEGATIVE_INFINITY)
  return Math.max(least - now, 0)
}

function waitsForCA({ health, work }: Identity): boolean {
  return health.kind === 'failing' || work.kind === 'queued'
}

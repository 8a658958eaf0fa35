/** Reads failures of a CA plugin: anything that was thrown as an error that can be shown, and whether there is a CA. */

import { scrub } from '../text/scrub.ts'
import { CA_ERROR_CODES, CAError, type CAErrorCode } from './ca-client.ts'

const CODES: ReadonlySet<unknown> = new Set(CA_ERROR_CODES)

/**
 * A new `CAError` with nothing of the thrown one but its checked code, whether and when to ask again, whom it concerns, and
 * its scrubbed text. Anything else than a `CAError` becomes `unavailable`, with `before` in front of its text. Never throws.
 */
export function asShownCAError(thrown: unknown, before = ''): CAError {
  try {
    if (thrown instanceof CAError && CODES.has(thrown.code)) {
      const { code, retryable, retryAfterMs, local, deferred } = thrown
      return new CAError(code, scrub(thrown), {
        retryable: retryable === true,
        local: local === true,
        ...(typeof retryAfterMs === 'number' && !Number.isNaN(retryAfterMs) && { retryAfterMs }),
        ...(Number.isFinite(deferred) && { deferred: Number(deferred) }),
      })
    }
  } catch {
    // A getter or a trap of its own: it is shown as anything else.
  }
  return new CAError('unavailable', `${before}${scrub(thrown)}`)
}

/** Whether it says that there is no CA. Every other failure is an answer, or says nothing of the CA. */
export function isAbsence({ code, local }: Pick<CAError, 'code' | 'local'>): boolean {
  return !local && (code === 'unavailable' || code === 'timeout')
}

/**
 * What failures of one cause have in common: `absence` for there is no CA, `deferred` for another CA that is kept for later, else
 * the code, and whether the cause is on this node.
 */
export type FailureKind = 'absence' | 'deferred' | CAErrorCode | `local ${CAErrorCode}`

export function failureKind(failure: Pick<CAError, 'code' | 'local' | 'deferred'>): FailureKind {
  if (failure.deferred !== undefined) return 'deferred'
  if (isAbsence(failure)) return 'absence'
  // What a node asks first, such as its API server, may answer too late or not at all.
  const code = failure.code === 'timeout' ? 'unavailable' : failure.code
  return failure.local ? `local ${code}` : code
}

/** Reads failures of a CA plugin: turns anything thrown into an error that can be shown, and judges whether there is a CA. */

import { scrub } from '../text/scrub.ts'
import { CA_ERROR_CODES, CAError, type CAErrorCode } from './ca-client.ts'

const CODES: ReadonlySet<unknown> = new Set(CA_ERROR_CODES)

/**
 * A new `CAError` that keeps only the checked code, whether and when to ask again, whom it concerns, and the scrubbed text
 * of the thrown one. Any other value becomes `unavailable`, with `before` in front of its text. Never throws.
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
    // A getter or a proxy trap threw: the value is shown like any other.
  }
  return new CAError('unavailable', `${before}${scrub(thrown)}`)
}

/** Whether the failure shows that there is no CA. Every other one is an answer, or no evidence about the CA. */
export function isAbsence({ code, local }: Pick<CAError, 'code' | 'local'>): boolean {
  return !local && (code === 'unavailable' || code === 'timeout')
}

/**
 * The kind that failures of one cause share: `absence` if there is no CA, `deferred` if another CA is kept for later, else
 * the code, and whether the cause is on this node.
 */
export type FailureKind = 'absence' | 'deferred' | CAErrorCode | `local ${CAErrorCode}`

export function failureKind(failure: Pick<CAError, 'code' | 'local' | 'deferred'>): FailureKind {
  if (failure.deferred !== undefined) return 'deferred'
  if (isAbsence(failure)) return 'absence'
  // A dependency on the way, such as the API server, may answer late or never: both are one kind.
  const code = failure.code === 'timeout' ? 'unavailable' : failure.code
  return failure.local ? `local ${code}` : code
}

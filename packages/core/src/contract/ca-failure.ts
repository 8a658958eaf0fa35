/** Turns anything that a CA plugin threw into an error that can be shown. */

import { scrub } from '../text/scrub.ts'
import { CA_ERROR_CODES, CAError } from './ca-client.ts'

const CODES: ReadonlySet<unknown> = new Set(CA_ERROR_CODES)

/**
 * A new `CAError` with nothing of the thrown one but its checked code, whether and when to ask again, and its scrubbed
 * text. Anything else than a `CAError` becomes `unavailable`, with `before` in front of its text. Never throws.
 */
export function asShownCAError(thrown: unknown, before = ''): CAError {
  try {
    if (thrown instanceof CAError && CODES.has(thrown.code)) {
      const { code, retryable, retryAfterMs } = thrown
      return new CAError(code, scrub(thrown), {
        retryable: retryable === true,
        ...(typeof retryAfterMs === 'number' && !Number.isNaN(retryAfterMs) && { retryAfterMs }),
      })
    }
  } catch {
    // A getter or a trap of its own: it is shown as anything else.
  }
  return new CAError('unavailable', `${before}${scrub(thrown)}`)
}

/** The errors of the plugins, which all read "Cannot <action>: <reason>. <remedy>." */
import { CAError, type CAErrorCode } from '@livery/core/plugin'

export interface Failure {
  /** Follows "Cannot" in the message: `get a certificate for … from …`. */
  readonly action: string
  /** Contains no secret: callers scrub what a peer wrote. */
  readonly reason: string
  /** The remedy; no period at the end. */
  readonly remedy: string
  /** Default: decided by `code`. */
  readonly retryable?: boolean | undefined
  /** Milliseconds that the CA asked to wait. */
  readonly retryAfterMs?: number | undefined
  /** Whether the failure is local and says nothing about the CA. Default: `false`. */
  readonly local?: boolean | undefined
  readonly cause?: unknown
}

export function caError(
  code: CAErrorCode,
  { action, reason, remedy, retryable, retryAfterMs, local, cause }: Failure,
): CAError {
  return new CAError(code, `Cannot ${action}: ${reason}. ${remedy}.`, {
    ...(retryable !== undefined && { retryable }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(local !== undefined && { local }),
    cause,
  })
}

/** Turns the gRPC status of a failed call into a {@link CAError} that says what to do and carries no secret. */
import { Metadata, type ServiceError, status } from '@grpc/grpc-js'
import { CAError, type CAErrorCode } from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { scrub } from '../answers/scrub.ts'
import { retryDelayOf } from './retry-info.ts'

export interface FailedCall {
  /** Follows "Cannot" in the message: `get a certificate for … from …`. */
  readonly action: string
  /** Tokens and other values that must not appear in a message. */
  readonly secrets: readonly string[]
  /** The remedy; no period at the end. */
  readonly remedyOf: (code: CAErrorCode) => string
  /** Statuses that last until somebody changes the server or the configuration. */
  readonly lasting: ReadonlySet<status>
}

const CODES: Readonly<Partial<Record<status, CAErrorCode>>> = {
  [status.UNAUTHENTICATED]: 'unauthenticated',
  [status.PERMISSION_DENIED]: 'denied',
  [status.INVALID_ARGUMENT]: 'invalid-csr',
  [status.RESOURCE_EXHAUSTED]: 'rate-limited',
  [status.DEADLINE_EXCEEDED]: 'timeout',
}

/** Statuses with which a CA refuses a lifetime that its policy does not allow. */
const POLICY: ReadonlySet<status> = new Set([status.INVALID_ARGUMENT, status.FAILED_PRECONDITION, status.OUT_OF_RANGE])

/** Whether a call ended with a gRPC status, rather than before it was made or with a signal's reason. */
export function isStatus(error: unknown): error is ServiceError {
  return error instanceof Error && !(error instanceof CAError) && 'code' in error && typeof error.code === 'number'
}

/** Builds the error that a library makes for `code`, which gRPC may not know. */
export function serviceError(code: status, details: string, metadata = new Metadata()): ServiceError {
  return Object.assign(new Error(`${code} ${status[code] ?? 'unknown'}: ${details}`), { code, details, metadata })
}

/** The status never becomes the `cause`: its text is not scrubbed. */
export function caErrorOfStatus(error: ServiceError, { action, secrets, remedyOf, lasting }: FailedCall): CAError {
  const code = codeOf(error)
  // Google's access tokens look like no other.
  const text = scrub(String(error.details ?? ''), secrets).replace(/\bya29\.[\w.-]+/g, '[token]')
  return caError(code, {
    action,
    reason: `${status[error.code] ?? error.code}${text && `: ${text}`}`,
    remedy: remedyOf(code),
    retryable: code === 'unavailable' && lasting.has(error.code) ? false : undefined,
    retryAfterMs: retryDelayOf(error),
  })
}

function codeOf({ code, details }: ServiceError): CAErrorCode {
  if (POLICY.has(code) && /\bTTL\b|lifetime|validity/i.test(details)) return 'ttl-too-long'
  // grpc-js reports a message beyond our own limit with this status.
  if (code === status.RESOURCE_EXHAUSTED && /message larger than max/i.test(details)) return 'bad-response'
  return CODES[code] ?? 'unavailable'
}

/** What went wrong between the plugin and Google, as a {@link CAError} that says what to do and carries no secret. */
import { type ServiceError, status } from '@grpc/grpc-js'
import { CAError, type CAErrorCode } from '@livery/core'
import { scrub } from '../../answers/scrub.ts'
import { retryDelayOf } from '../../transport/retry-info.ts'

export interface FailedCall {
  /** After "Cannot": `get a certificate for … from …`. */
  readonly action: string
  /** The tokens that must not come back in a message. */
  readonly secrets: readonly string[]
  readonly remedies: Remedies
}

/** What the operator should do, where it depends on the service and its configuration. */
export interface Remedies {
  readonly unauthenticated: string
  readonly denied: string
  readonly notFound: string
}

const CODES: Readonly<Partial<Record<status, CAErrorCode>>> = {
  [status.UNAUTHENTICATED]: 'unauthenticated',
  [status.PERMISSION_DENIED]: 'denied',
  [status.INVALID_ARGUMENT]: 'invalid-csr',
  [status.RESOURCE_EXHAUSTED]: 'rate-limited',
  [status.DEADLINE_EXCEEDED]: 'timeout',
}

/** Somebody has to mend the pool first: they are asked again at the longest backoff. */
const LASTING: ReadonlySet<status> = new Set([status.NOT_FOUND, status.FAILED_PRECONDITION, status.UNIMPLEMENTED])
/** Those by which a service refuses a lifetime that its policy does not allow. */
const POLICY: ReadonlySet<status> = new Set([status.INVALID_ARGUMENT, status.FAILED_PRECONDITION, status.OUT_OF_RANGE])

/** Whether a call ended with a gRPC status, rather than before it was made, or with a signal's reason. */
export function isStatus(error: unknown): error is ServiceError {
  return error instanceof Error && !(error instanceof CAError) && 'code' in error && typeof error.code === 'number'
}

/** The error of a call that ended with a gRPC status. It never becomes a `cause`: it has the text unscrubbed. */
export function errorOfStatus(error: ServiceError, call: FailedCall): CAError {
  const code = codeOf(error)
  const retryAfterMs = retryDelayOf(error)
  const text = scrub(String(error.details ?? ''), call.secrets).replace(/\bya29\.[\w.-]+/g, '[token]')
  return new CAError(
    code,
    `Cannot ${call.action}: ${status[error.code] ?? error.code}${text && `: ${text}`}. ${remedyOf(code, error, call)}`,
    {
      ...(code === 'unavailable' && LASTING.has(error.code) && { retryable: false }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    },
  )
}

function codeOf({ code, details }: ServiceError): CAErrorCode {
  if (POLICY.has(code) && /lifetime|validity|\bttl\b/i.test(details)) return 'ttl-too-long'
  // What grpc-js says itself of a message beyond our own limit, and of one that is no answer.
  if (code === status.RESOURCE_EXHAUSTED && /message larger than max/i.test(details)) return 'bad-response'
  if (code === status.INTERNAL && /message parsing error/i.test(details)) return 'bad-response'
  return CODES[code] ?? 'unavailable'
}

function remedyOf(code: CAErrorCode, error: ServiceError, { remedies }: FailedCall): string {
  switch (code) {
    case 'unauthenticated':
      return remedies.unauthenticated
    case 'denied':
      return remedies.denied
    case 'invalid-csr':
      return 'Use a key type and names that the issuance policy and the template allow.'
    case 'ttl-too-long':
      return 'Ask for a shorter ttl, or raise the maximum lifetime of the issuance policy and the template.'
    case 'rate-limited':
      return 'It is asked again later; raise the quota if this lasts.'
    case 'bad-response':
      return 'Check the endpoint.'
    default:
      return unavailableRemedy(error, remedies)
  }
}

function unavailableRemedy({ code, details }: ServiceError, remedies: Remedies): string {
  switch (code) {
    case status.NOT_FOUND:
      return remedies.notFound
    case status.FAILED_PRECONDITION:
      return 'Enable the CA pool and at least one CA in it.'
    case status.ALREADY_EXISTS:
      return 'It is asked again, with a new key.'
    case status.UNIMPLEMENTED:
      return "Check the endpoint: this server is no CA of Google's."
    default:
      return /certificate|altname|self-signed|unable to verify/i.test(details)
        ? 'Check rootCert against the certificate of the endpoint.'
        : 'Check the endpoint and the network; it is asked again.'
  }
}

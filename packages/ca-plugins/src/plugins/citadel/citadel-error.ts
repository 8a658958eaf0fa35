/** What went wrong between the plugin and the CA, as a {@link CAError} that says what to do and carries no secret. */
import { type ServiceError, status } from '@grpc/grpc-js'
import { CAError, type CAErrorCode } from '@livery/core'
import { scrub } from '../../answers/scrub.ts'
import { retryDelayOf } from '../../transport/retry-info.ts'

export interface FailedCall {
  /** After "Cannot": `get a certificate for … from …`. */
  readonly action: string
  /** The token and whatever else must not come back in a message. */
  readonly secrets: readonly string[]
  /** What to do if the CA does not accept how the call was authenticated. */
  readonly credentialsRemedy: string
}

const CODES: Readonly<Partial<Record<status, CAErrorCode>>> = {
  [status.UNAUTHENTICATED]: 'unauthenticated',
  [status.PERMISSION_DENIED]: 'denied',
  [status.INVALID_ARGUMENT]: 'invalid-csr',
  [status.RESOURCE_EXHAUSTED]: 'rate-limited',
  [status.DEADLINE_EXCEEDED]: 'timeout',
}

/** The error of a call that ended with a gRPC status. */
export function errorOfStatus(error: ServiceError, call: FailedCall): CAError {
  const code = codeOf(error)
  const retryAfterMs = retryDelayOf(error)
  const text = scrub(error.details, call.secrets)
  return new CAError(
    code,
    `Cannot ${call.action}: ${status[error.code] ?? error.code}${text && `: ${text}`}. ${remedyOf(code, error, call)}`,
    {
      ...(error.code === status.UNIMPLEMENTED && { retryable: false }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    },
  )
}

function codeOf({ code, details }: ServiceError): CAErrorCode {
  if (code === status.INVALID_ARGUMENT && /\bTTL\b|lifetime|validity/i.test(details)) return 'ttl-too-long'
  // What grpc-js says itself of a message beyond our own limit.
  if (code === status.RESOURCE_EXHAUSTED && /message larger than max/i.test(details)) return 'bad-response'
  return CODES[code] ?? 'unavailable'
}

function remedyOf(
  code: CAErrorCode,
  { code: grpcCode, details }: ServiceError,
  { credentialsRemedy }: FailedCall,
): string {
  switch (code) {
    case 'unauthenticated':
      return /impersonat/i.test(details)
        ? 'Let the CA trust this node (istiod: CA_TRUSTED_NODE_ACCOUNTS), and check that a pod of this identity runs on it.'
        : credentialsRemedy
    case 'denied':
      return 'Let the CA allow this caller.'
    case 'invalid-csr':
      return 'Use a key type that the CA accepts.'
    case 'ttl-too-long':
      return 'Ask for a shorter ttl.'
    case 'rate-limited':
      return 'It is asked again later.'
    case 'bad-response':
      return 'Check that an Istio CA answers there.'
    default:
      return grpcCode === status.UNIMPLEMENTED
        ? 'Check the address: this server is no Istio CA.'
        : connectionRemedy(details)
  }
}

function connectionRemedy(details: string): string {
  if (/certificate|altname|self-signed|unable to verify/i.test(details))
    return "Check rootCert and serverName against the CA's certificate."
  if (/wrong version number|packet length too long/i.test(details))
    return 'Check the address: what answers there does not speak TLS.'
  return 'Check the address and that the CA runs; it is asked again.'
}

/** Remedies for a call that Istio's CA refused. */
import { type ServiceError, status } from '@grpc/grpc-js'
import type { CAError, CAErrorCode } from '@livery/core/plugin'
import { certificateRemedy } from '../../answers/certificate-failure.ts'
import { caErrorOfStatus, type FailedCall } from '../../transport/grpc-status.ts'

interface RefusedCall extends Pick<FailedCall, 'action' | 'secrets'> {
  /** The remedy if the CA rejects the call's credentials; no period at the end. */
  readonly credentialsRemedy: string
  /** The remedy if the CA does not let this caller ask for others; no period at the end. */
  readonly impersonationRemedy: string
}

const LASTING: ReadonlySet<status> = new Set([status.UNIMPLEMENTED])

export function caErrorOfCall(error: ServiceError, { action, secrets, ...remedies }: RefusedCall): CAError {
  const remedyOf = (code: CAErrorCode) => remedyFor(code, error, remedies)
  return caErrorOfStatus(error, { action, secrets, remedyOf, lasting: LASTING })
}

function remedyFor(
  code: CAErrorCode,
  error: ServiceError,
  { credentialsRemedy, impersonationRemedy }: Omit<RefusedCall, 'action' | 'secrets'>,
): string {
  switch (code) {
    case 'unauthenticated':
      return /impersonat/i.test(error.details) ? impersonationRemedy : credentialsRemedy
    case 'denied':
      return 'Let the CA allow this caller'
    case 'invalid-csr':
      return 'Use a key type that the CA accepts'
    case 'ttl-too-long':
      return 'Ask for a shorter ttl'
    case 'rate-limited':
      return 'Livery retries later'
    case 'bad-response':
      return 'Check that an Istio CA answers there'
    default:
      return error.code === status.UNIMPLEMENTED
        ? 'Check the address: this server is not an Istio CA'
        : connectionRemedy(error)
  }
}

function connectionRemedy(error: ServiceError): string {
  const remedy = certificateRemedy(error.details, 'rootCert', 'serverName')
  if (remedy !== undefined) return remedy
  if (/wrong version number|packet length too long/i.test(error.details))
    return 'Check the address: the server there does not speak TLS'
  return 'Check the address and that the CA runs; it is asked again'
}

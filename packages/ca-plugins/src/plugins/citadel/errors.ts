/** Remedies for a call that Istio's CA refused. */
import { type ServiceError, status } from '@grpc/grpc-js'
import type { CAError, CAErrorCode } from '@livery/core/plugin'
import { decodeJwt } from 'jose/jwt/decode'
import { certificateRemedy } from '../../answers/certificate-failure.ts'
import { caErrorOfStatus, type FailedCall } from '../../transport/grpc-status.ts'

interface RefusedCall extends Pick<FailedCall, 'action' | 'secrets'> {
  /** The remedy if the CA rejects the call's credentials; no period at the end. */
  readonly credentialsRemedy: string
  /** The token of the call, empty without one. */
  readonly token: string
  /** Names the token: `the token in …`. */
  readonly what: string
}

const LASTING: ReadonlySet<status> = new Set([status.UNIMPLEMENTED])

export function caErrorOfCall(error: ServiceError, call: RefusedCall): CAError {
  const { action, secrets } = call
  const remedyOf = (code: CAErrorCode) => remedyFor(code, error, call)
  return caErrorOfStatus(error, { action, secrets, remedyOf, lasting: LASTING })
}

function remedyFor(code: CAErrorCode, error: ServiceError, { credentialsRemedy, token, what }: RefusedCall): string {
  switch (code) {
    case 'unauthenticated':
      return /impersonat/i.test(error.details) ? impersonationRemedy(token, what) : credentialsRemedy
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

/** istiod refuses the agent's impersonation without a reason. */
function impersonationRemedy(token: string, what: string): string {
  const { account, pod } = readAccount(token)
  if (account !== undefined && pod === undefined)
    return `Use the token of the agent's own pod, as kubelet mounts it: ${what} is bound to no pod`
  // `NAME=value` would be one long word, and scrubbed as a credential.
  const trusted = account === undefined ? 'this node' : `the account ${account}`
  return `Let the CA trust ${trusted} (istiod: CA_TRUSTED_NODE_ACCOUNTS), and check that a pod of this identity runs on this node`
}

/** The claims that the API server writes into a service account's token; empty for another token. */
function readAccount(token: string): { readonly account?: string; readonly pod?: unknown } {
  let claims: unknown
  try {
    claims = decodeJwt(token)['kubernetes.io']
  } catch {
    return {}
  }
  const { namespace, serviceaccount, pod } = Object(claims)
  const account = `${namespace}/${Object(serviceaccount).name}`
  return claims !== undefined && /^[a-z0-9.-]{1,253}\/[a-z0-9.-]{1,253}$/.test(account) ? { account, pod } : {}
}

/** The remedy if istiod refuses the agent's impersonation: its answer has no reason. */
import { decodeJwt } from 'jose/jwt/decode'

/** `what` names the token: `the token in …`. No period at the end. */
export function impersonationRemedy(token: string, what: string): string {
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

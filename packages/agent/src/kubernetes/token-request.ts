/** Requests one token of a pod's service account from the API server, bound to the pod. */
import type { ApiConnection } from '@livery/ca-plugins/kubernetes-api'
import { CAError, type Clock, type Credential, rememberToken, withDeadline } from '@livery/core/plugin'
import type { Pod } from './pod.ts'

/** How long a call of the API server may take. */
const TIMEOUT_MS = 10_000
const MAX_TOKEN_LENGTH = 65_536

export interface TokenWish {
  readonly pod: Pod
  readonly audience: string
  readonly expirationSeconds: number
}

/** Rejects with a `CAError` that blames no CA, or with the reason of `signal`. */
export async function requestToken(
  connection: Pick<ApiConnection, 'request'>,
  wish: TokenWish,
  clock: Clock,
  signal: AbortSignal,
): Promise<Credential> {
  const error = () =>
    new CAError('timeout', `Cannot ${describe(wish)}: no answer within ${TIMEOUT_MS} ms. It is asked again.`)
  try {
    return await withDeadline({ clock, ms: TIMEOUT_MS, error, signal }, ending =>
      request(connection, wish, clock, ending),
    )
  } catch (failure) {
    signal.throwIfAborted()
    throw failure instanceof CAError ? ofAccount(failure) : failure
  }
}

function describe({ pod, audience }: TokenWish): string {
  const { namespace, serviceAccount, name } = pod
  return `get a token of the service account ${namespace}/${serviceAccount} for ${audience}, bound to the pod ${name}`
}

/** https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/ */
async function request(
  connection: Pick<ApiConnection, 'request'>,
  wish: TokenWish,
  clock: Clock,
  signal: AbortSignal,
): Promise<Credential> {
  const { pod, audience, expirationSeconds } = wish
  const { namespace, serviceAccount, name, uid } = pod
  const call = { what: describe(wish), verb: 'create', resource: 'serviceaccounts/token' } as const
  const askedAt = clock.now()
  const { json } = await connection.request(
    call,
    { signal },
    {
      method: 'POST',
      path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(serviceAccount)}/token`,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: {
          audiences: [audience],
          expirationSeconds,
          boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name, uid },
        },
      }),
    },
  )
  return credentialOf(json, wish, askedAt)
}

/** The lifetime is counted on this machine's clock, which may differ from the API server's. */
function credentialOf(json: Readonly<Record<string, unknown>>, wish: TokenWish, askedAt: number): Credential {
  const { token } = Object(json['status'])
  const { expirationSeconds } = Object(json['spec'])
  const isToken = typeof token === 'string' && token.length <= MAX_TOKEN_LENGTH && /^[\x21-\x7e]+$/.test(token)
  if (isToken && typeof expirationSeconds === 'number' && expirationSeconds > 0) {
    rememberToken(token)
    return { token, expiresAt: askedAt + expirationSeconds * 1_000 }
  }
  throw new CAError(
    'bad-response',
    `Cannot ${describe(wish)}: the answer has no token, or no lifetime of it. Check that this is an API server.`,
  )
}

/**
 * The failure does not concern the CA. A missing pod or service account may come back under the same name; a busy API
 * server delays this identity only.
 */
function ofAccount(failure: CAError): CAError {
  const { code, message, retryAfterMs, cause } = failure
  return new CAError(code === 'rate-limited' ? 'unavailable' : code, message, {
    local: true,
    cause,
    ...((code === 'unavailable' || code === 'rate-limited') && { retryable: true }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}

/** A stand-in for Vault and OpenBao: tokens, Kubernetes logins and leases as theirs, and a {@link FakeCA} signs. */
import type { Clock } from '@livery/core/plugin'
import {
  type JsonCall,
  JsonCaServer,
  type JsonReply,
  type JsonStandInOptions,
  type Refusals,
  replyOf,
  retryAfter,
} from './json-ca-server.ts'

const DENIED = '1 error occurred:\n\t* permission denied\n\n'
const BAD_TOKEN = '2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n'

const REFUSALS: Refusals = {
  unauthenticated: [403, BAD_TOKEN],
  denied: [403, DENIED],
  'invalid-csr': [400, 'role requires keys of type rsa'],
  'ttl-too-long': [
    400,
    'cannot satisfy request, as TTL would result in notAfter of 2126-09-17T03:20:02Z that is beyond the expiration of the CA certificate at 2036-11-18T19:20:02Z',
  ],
  'rate-limited': [429, 'request path "pki/sign/workload": rate limit quota exceeded'],
  unavailable: [503, 'Vault is sealed'],
}

interface KubernetesAuth {
  /** The service account tokens that may log in. */
  readonly jwts: Set<string>
  readonly leaseSeconds: number
  /** From the login on, renewals notwithstanding; default: no end. */
  readonly maxSeconds?: number
}

export interface VaultStandInOptions extends JsonStandInOptions {
  /** Tokens are its leases; without it, they are for `ca` to check. */
  readonly kubernetes?: KubernetesAuth
  /** In seconds; a longer wish is cut, with a warning. */
  readonly maxTtl?: number
}

interface Lease {
  expiresAt: number
  readonly endsAt: number
}

interface VaultStandIn {
  readonly server: JsonCaServer
  /** By token; a deleted one is revoked. */
  readonly leases: Map<string, Lease>
}

export async function startVault(options: VaultStandInOptions): Promise<VaultStandIn> {
  const leases = new Map<string, Lease>()
  return { server: await JsonCaServer.startStandIn(options, call => handle(call, options, leases)), leases }
}

async function handle(call: JsonCall, options: VaultStandInOptions, leases: Map<string, Lease>): Promise<JsonReply> {
  const { ca, clock, kubernetes } = options
  const token = String(call.headers['x-vault-token'] ?? '')
  const lease = leases.get(token)
  const isGood = lease !== undefined && lease.expiresAt > clock.now()
  switch (`${call.method} ${call.path}`) {
    case 'GET /v1/pki/issuers?list=true':
      return data({ keys: ca.trustBundle().map((_, index) => `issuer-${index}`), key_info: {} })
    case 'POST /v1/auth/kubernetes/login':
      return kubernetes ? login(call, kubernetes, clock, leases) : refusal(404, 'no handler for route')
    case 'POST /v1/auth/token/renew-self':
      if (!isGood || !kubernetes) return refusal(...REFUSALS.unauthenticated)
      lease.expiresAt = Math.min(clock.now() + kubernetes.leaseSeconds * 1000, lease.endsAt)
      return auth(token, lease, clock)
    case 'POST /v1/pki/sign/workload':
      return kubernetes && !isGood ? refusal(...REFUSALS.unauthenticated) : sign(call, token, options)
  }
  const [, index] = /^\/v1\/pki\/issuer\/issuer-(\d+)\/json$/.exec(call.path) ?? []
  const root = ca.trustBundle()[Number(index)]
  if (root !== undefined) return data({ certificate: root, ca_chain: [root] })
  return refusal(404, `no handler for route "${call.path}". route entry not found.`)
}

function login(
  { json }: JsonCall,
  { jwts, leaseSeconds, maxSeconds = Number.POSITIVE_INFINITY }: KubernetesAuth,
  clock: Clock,
  leases: Map<string, Lease>,
): JsonReply {
  if (json['role'] !== 'livery') return refusal(400, `invalid role name "${json['role']}"`)
  if (!jwts.has(String(json['jwt']))) return refusal(403, 'permission denied')
  const token = `hvs.lease-${leases.size + 1}`
  const now = clock.now()
  const lease = { expiresAt: now + leaseSeconds * 1000, endsAt: now + maxSeconds * 1000 }
  leases.set(token, lease)
  return auth(token, lease, clock)
}

function auth(token: string, { expiresAt }: Lease, clock: Clock): JsonReply {
  const seconds = Math.floor((expiresAt - clock.now()) / 1000)
  return { status: 200, body: { auth: { client_token: token, lease_duration: seconds, renewable: true } } }
}

async function sign(
  { json: { csr, ttl } }: JsonCall,
  token: string,
  { ca, kubernetes, maxTtl = 86_400 }: VaultStandInOptions,
): Promise<JsonReply> {
  const [, seconds] = /^(\d+)s$/.exec(String(ttl)) ?? []
  if (typeof csr !== 'string' || seconds === undefined) return refusal(400, 'csr contains no data')
  const ttlSeconds = Math.min(Number(seconds), maxTtl)
  const warning = `TTL "${seconds}s" is longer than permitted maxTTL "${maxTtl}s", so maxTTL is being used`
  const answered = await ca.answer({ csr, ttlSeconds, ...(!kubernetes && { token }) })
  return replyOf(answered, {
    issued({ chain, root, truncated }) {
      const [certificate, ...issuers] = chain
      const signed = { certificate, issuing_ca: issuers[0] ?? root, ca_chain: [...issuers, root] }
      const warnings = Number(seconds) > maxTtl ? [warning] : null
      return { status: 200, body: { data: chain.length > 0 ? signed : {}, warnings }, truncated }
    },
    refused(refused) {
      const [status, text] = REFUSALS[refused.code]
      return { ...refusal(status, text, refused.message), headers: retryAfter(refused) }
    },
  })
}

function data(fields: object): JsonReply {
  return { status: 200, body: { data: fields, warnings: null } }
}

function refusal(status: number, ...errors: readonly string[]) {
  return { status, body: { errors } }
}

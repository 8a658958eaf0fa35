/** The tokens of calls to Vault: from the credentials, or leases from a Kubernetes login. */
import {
  type CAContext,
  CAError,
  type Clock,
  type Credential,
  type CredentialSource,
  type SpiffeId,
} from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { TokenCache, tokenKey } from '../../credentials/token-cache.ts'
import type { VaultConfig } from './config.ts'
import { fieldsOf, type VaultServer } from './vault-server.ts'

export interface TokenRequest {
  readonly identity: SpiffeId
  readonly tokenFile: string | undefined
  readonly signal: AbortSignal
}

interface VaultToken {
  readonly token: string
  /** Whether it was held from before, and may have ended at the server. */
  readonly isHeld: boolean
}

export interface VaultTokens {
  get(request: TokenRequest): Promise<VaultToken>
  /** Makes the next caller log in. */
  forget(request: TokenRequest, token: string): void
  /** The remedy if the server rejects the token. */
  readonly remedy: string
}

/** Sends the tokens of the credentials, which are Vault's. */
export function givenTokens(credentials: CredentialSource): VaultTokens {
  return {
    get: async request => ({ token: (await ask(credentials, request)).token, isHeld: false }),
    forget() {},
    remedy: `Check that ${credentials.description} is one of this server and namespace, and has not expired or been revoked`,
  }
}

interface Lease {
  readonly token: string
  readonly renewable: boolean
  /** The lifetime at login, for a renewed token too: when the last renewals get shorter, its end is near. */
  readonly fullMs: number
  readonly endsAt: number
}

/** The lifetime assumed for a lease that does not end. */
const ENDLESS_MS = 3_600_000
/** A lease is renewed at two thirds of its life. */
const REFRESH = { beforeMs: (lifetimeMs: number) => lifetimeMs / 3, intervalMs: 5_000 }

/** Holds one lease for each token file, or for each identity if the credentials are per identity: renews it, and logs in again if that fails. */
export class KubernetesLogin implements VaultTokens {
  readonly remedy: string
  readonly #server: VaultServer
  readonly #credentials: CredentialSource
  readonly #clock: Clock
  readonly #role: string
  readonly #mount: string
  readonly #address: string
  readonly #cache: TokenCache
  readonly #leases = new Map<string, Lease>()

  constructor(
    server: VaultServer,
    credentials: CredentialSource,
    { clock, log }: Pick<CAContext, 'clock' | 'log'>,
    { address }: Pick<VaultConfig, 'address'>,
    { role, mount }: NonNullable<VaultConfig['kubernetes']>,
  ) {
    this.#server = server
    this.#credentials = credentials
    this.#clock = clock
    this.#address = address
    this.#role = role
    this.#mount = mount
    this.#cache = new TokenCache(clock, log, REFRESH)
    this.remedy = `Check that role "${role}" of auth/${mount} is bound to the service account, namespace and audience of ${credentials.description}, and that the server can review tokens`
  }

  async get(request: TokenRequest): Promise<VaultToken> {
    let isHeld = true
    const { token } = await this.#cache.get(this.#keyOf(request), request.signal, signal => {
      isHeld = false
      return this.#fetch({ ...request, signal })
    })
    return { token, isHeld }
  }

  forget(request: TokenRequest, token: string): void {
    this.#cache.forget(this.#keyOf(request), token)
    // Another call may have logged in already.
    if (this.#leases.get(this.#keyOf(request))?.token === token) this.#leases.delete(this.#keyOf(request))
  }

  async #fetch(request: TokenRequest): Promise<Credential> {
    const lease = this.#leases.get(this.#keyOf(request))
    return (lease?.renewable ? await this.#renew(lease, request) : undefined) ?? (await this.#login(request))
  }

  /** `undefined` if the lease cannot be renewed, or only briefly. */
  async #renew(lease: Lease, request: TokenRequest): Promise<Credential | undefined> {
    const askedAt = this.#clock.now()
    try {
      const answer = await this.#server.call({
        action: `get a renewed login from ${this.#address}`,
        method: 'POST',
        path: 'auth/token/renew-self',
        token: lease.token,
        body: {},
        tokenRemedy: this.remedy,
        signal: request.signal,
      })
      const renewed = leaseOf(fieldsOf(answer, 'auth'))
      if (renewed && renewed.fullMs >= lease.fullMs / 2)
        return this.#keep({ ...lease, renewable: renewed.renewable }, renewed.fullMs, request, askedAt)
    } catch (error) {
      // A server that cannot be reached cannot take a login either.
      if (!(error instanceof CAError) || UNASKED.has(error.code)) throw error
    }
    this.#leases.delete(this.#keyOf(request))
    return undefined
  }

  async #login(request: TokenRequest): Promise<Credential> {
    const { token: jwt } = await ask(this.#credentials, request)
    const askedAt = this.#clock.now()
    const action = `get a login from ${this.#address}`
    const answer = await this.#server.call({
      action,
      method: 'POST',
      path: `auth/${this.#mount}/login`,
      body: { role: this.#role, jwt },
      isLogin: true,
      secrets: [jwt],
      tokenRemedy: this.remedy,
      signal: request.signal,
    })
    const lease = leaseOf(fieldsOf(answer, 'auth'))
    if (lease) return this.#keep(lease, lease.fullMs, request, askedAt)
    throw caError('bad-response', { action, reason: 'its answer has no client_token', remedy: 'Check the address' })
  }

  #keep(lease: Omit<Lease, 'endsAt'>, lifetimeMs: number, request: TokenRequest, askedAt: number): Credential {
    for (const [key, { endsAt }] of this.#leases) if (endsAt <= askedAt) this.#leases.delete(key)
    const expiresAt = askedAt + lifetimeMs
    this.#leases.set(this.#keyOf(request), { ...lease, endsAt: expiresAt })
    return { token: lease.token, expiresAt }
  }

  #keyOf(request: TokenRequest): string {
    return tokenKey(this.#credentials, request)
  }
}

const UNASKED: ReadonlySet<string> = new Set(['unavailable', 'timeout', 'rate-limited', 'bad-response'])

function leaseOf(auth: Readonly<Record<string, unknown>>): Omit<Lease, 'endsAt'> | undefined {
  const { client_token: token, lease_duration: seconds, renewable } = auth
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token)) return undefined
  const fullMs = typeof seconds === 'number' && seconds > 0 ? seconds * 1000 : ENDLESS_MS
  return { token, renewable: renewable === true, fullMs }
}

function ask(credentials: CredentialSource, { identity, tokenFile, signal }: TokenRequest): Promise<Credential> {
  return credentials.get({ identity, ...(tokenFile !== undefined && { tokenFile }), signal })
}

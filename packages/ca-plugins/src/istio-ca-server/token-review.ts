/** Callers by Kubernetes service account tokens that the API server reviews: bound tokens end with their pod. */
import { createHash } from 'node:crypto'
import { CAError, type Clock, isSpiffeId, type SpiffeId, scrub, withDeadline } from '@livery/core/plugin'
import { expiryOf } from '../credentials/token-expiry.ts'
import type { ApiConnection } from '../kubernetes-api/api-connection.ts'
import { type Authenticator, type Caller, type CurrentGrants, caller } from './authenticators.ts'

export interface ReviewedTokensOptions {
  readonly connection: Pick<ApiConnection, 'request'>
  readonly clock: Clock
  /** The audience that a token must have. */
  readonly audience: string
  /** The trust domain of the identities: `system:serviceaccount:<ns>:<sa>` is `spiffe://<trust domain>/ns/<ns>/sa/<sa>`. */
  readonly trustDomain: string
  /** An identity's grants name the other identities that its token is good for; default: none. */
  readonly grants?: CurrentGrants | undefined
}

interface Reviewed {
  readonly identity: SpiffeId
  readonly at: number
  readonly until: number
}

/** A deleted pod is refused after this time, at the latest. */
const HELD_MS = 10_000
const MAX_HELD = 10_000
const MAX_REVIEWS = 64
const TIMEOUT_MS = 10_000
/** The remedy is at the end, after up to 300 characters of the API server. */
const MAX_MESSAGE = 1_000
const TOKEN = /^[\w-]{1,8192}\.[\w-]{1,16384}\.[\w-]{1,8192}$/
const USERNAME = /^system:serviceaccount:([^:/]+):([^:/]+)$/

/** Its `authenticate` rejects with a `CAError` while the API server cannot say. */
export function reviewedTokens(options: ReviewedTokensOptions): Authenticator {
  const reviews = new Reviews(options)
  return {
    async authenticate({ bearerToken }) {
      const identity = bearerToken === undefined ? undefined : await reviews.identityOf(bearerToken)
      return identity && (await callerOf(identity, options.grants))
    },
  }
}

async function callerOf(identity: SpiffeId, grants: CurrentGrants | undefined): Promise<Caller> {
  const own = (await grants?.())?.filter(grant => grant.identity === identity) ?? []
  const impersonates = own.flatMap(grant => grant.impersonates ?? [])
  const dnsNames = own.flatMap(grant => grant.dnsNames ?? [])
  return caller({
    identity,
    ...(impersonates.length > 0 && { impersonates }),
    ...(dnsNames.length > 0 && { dnsNames }),
  })
}

class Reviews {
  readonly #options: ReviewedTokensOptions
  /** Reviews by the digest of the token, the oldest first. */
  readonly #held = new Map<string, Reviewed>()
  readonly #open = new Map<string, Promise<SpiffeId | undefined>>()

  constructor(options: ReviewedTokensOptions) {
    this.#options = options
  }

  async identityOf(token: string): Promise<SpiffeId | undefined> {
    const now = this.#options.clock.now()
    if (!TOKEN.test(token) || (expiryOf(token) ?? now) < now) return undefined
    const digest = createHash('sha256').update(token).digest('base64')
    const held = this.#held.get(digest)
    if (held && held.at <= now && now < held.until) return held.identity
    const open = this.#open.get(digest)
    if (open !== undefined) return await open
    if (this.#open.size >= MAX_REVIEWS)
      throw new CAError('unavailable', `Cannot review a token: ${MAX_REVIEWS} others are being reviewed.`)
    const review = this.#review(token, digest).finally(() => this.#open.delete(digest))
    this.#open.set(digest, review)
    return await review
  }

  async #review(token: string, digest: string): Promise<SpiffeId | undefined> {
    const { clock, trustDomain } = this.#options
    const at = clock.now()
    const username = await this.#username(token)
    const [, namespace, serviceAccount] = USERNAME.exec(username ?? '') ?? []
    const identity = `spiffe://${trustDomain}/ns/${namespace}/sa/${serviceAccount}`
    if (namespace === undefined || !isSpiffeId(identity)) return undefined
    this.#hold(digest, { identity, at, until: Math.min(at + HELD_MS, expiryOf(token) ?? Number.POSITIVE_INFINITY) })
    return identity
  }

  #hold(digest: string, reviewed: Reviewed): void {
    this.#held.delete(digest)
    this.#held.set(digest, reviewed)
    for (const [oldest, { until }] of this.#held) {
      if (until > reviewed.at && this.#held.size <= MAX_HELD) return
      this.#held.delete(oldest)
    }
  }

  /** The user name in a token that is good for the audience. https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/ */
  async #username(token: string): Promise<string | undefined> {
    const { connection, clock, audience } = this.#options
    const call = { what: 'review the token of a caller', verb: 'create', resource: 'tokenreviews' } as const
    const request = {
      method: 'POST' as const,
      path: '/apis/authentication.k8s.io/v1/tokenreviews',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token, audiences: [audience] },
      }),
    }
    const error = () =>
      new CAError('timeout', `Cannot review the token of a caller: no answer within ${TIMEOUT_MS} ms.`)
    const { signal } = new AbortController()
    try {
      const { json } = await withDeadline({ clock, ms: TIMEOUT_MS, error, signal }, ending =>
        connection.request(call, { signal: ending }, request),
      )
      return usernameIn(json, audience)
    } catch (failure) {
      if (!(failure instanceof CAError)) throw failure
      throw new CAError(failure.code, scrub(failure.message, { secrets: [token], maxLength: MAX_MESSAGE }))
    }
  }
}

/** A server that ignores audiences answers with none. */
function usernameIn({ status }: Readonly<Record<string, unknown>>, audience: string): string | undefined {
  const { authenticated, user, audiences } = Object(status)
  const { username } = Object(user)
  const isGood = authenticated === true && Array.isArray(audiences) && audiences.includes(audience)
  return isGood && typeof username === 'string' ? username : undefined
}

/** Callers by Kubernetes service account tokens (JWT, RFC 7519), verified with the keys of a JWKS file (RFC 7517). */
import { ChangingFile, type Clock, isSpiffeId, type SpiffeId, trustDomainProblem } from '@livery/core'
import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { reasonOf } from '../answers/reason-of.ts'
import { type Authenticator, caller } from './authenticators.ts'

export interface JwtTokensOptions {
  readonly clock: Clock
  /** Read again whenever it has changed. While it cannot be read, every token is refused. */
  readonly jwksFile: string
  /** The token's `iss`. */
  readonly issuer: string
  /** One of the token's `aud`; default `istio-ca`. */
  readonly audience?: string
  /** Of the identities: `system:serviceaccount:<ns>:<sa>` is `spiffe://<trust domain>/ns/<ns>/sa/<sa>`. */
  readonly trustDomain: string
  /** The identities that are those of node agents, and the workloads for which each may ask. */
  readonly nodes?: ReadonlyMap<SpiffeId, readonly SpiffeId[]>
  /** Called when the JWKS file cannot be used, once for each state of the file. */
  warn(message: string): void
}

/** Nothing symmetric: every verifier of such a token could make one. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']
const MAX_JWKS_BYTES = 1_048_576
const SUBJECT = /^system:serviceaccount:([^:/]+):([^:/]+)$/

/** Rejects with a `TypeError` for an option it cannot use, and an `Error` if the JWKS file cannot be read. */
export async function jwtTokens(options: JwtTokensOptions): Promise<Authenticator> {
  checkOptions(options)
  const { clock, issuer, trustDomain, nodes, audience = 'istio-ca' } = options
  const keys = new JwksFile(options.jwksFile, options.warn)
  await keys.read()
  return {
    authenticate: async ({ bearerToken }) => {
      const key = bearerToken === undefined ? undefined : await keys.current()
      if (bearerToken === undefined || !key) return undefined
      const subject = await verifiedSubject(bearerToken, key, { issuer, audience, now: clock.now() })
      const [, namespace, serviceAccount] = SUBJECT.exec(subject ?? '') ?? []
      const identity = `spiffe://${trustDomain}/ns/${namespace}/sa/${serviceAccount}`
      if (namespace === undefined || !isSpiffeId(identity)) return undefined
      return caller(identity, nodes?.get(identity))
    },
  }
}

async function verifiedSubject(
  token: string,
  key: JWTVerifyGetKey,
  { issuer, audience, now }: { readonly issuer: string; readonly audience: string; readonly now: number },
): Promise<string | undefined> {
  try {
    const { payload } = await jwtVerify(token, key, {
      issuer,
      audience,
      algorithms: ALGORITHMS,
      requiredClaims: ['exp', 'sub'],
      currentDate: new Date(now),
    })
    return payload.sub
  } catch {
    // Whatever is wrong with a stranger's token, the answer is the same.
    return undefined
  }
}

/** The keys of a file, imported once for each content of the file. */
class JwksFile {
  readonly #file: ChangingFile
  readonly #warn: (message: string) => void
  #imported: { readonly bytes: Buffer; readonly keys: JWTVerifyGetKey } | undefined
  #problem: string | undefined

  constructor(path: string, warn: (message: string) => void) {
    this.#file = new ChangingFile(path, MAX_JWKS_BYTES)
    this.#warn = warn
  }

  /** The keys as the file has them now; `undefined`, after a warning, if it cannot be used. */
  async current(): Promise<JWTVerifyGetKey | undefined> {
    try {
      const keys = await this.read()
      this.#problem = undefined
      return keys
    } catch (error) {
      const problem = reasonOf(error)
      if (problem !== this.#problem) this.#warn(problem)
      this.#problem = problem
      return undefined
    }
  }

  async read(): Promise<JWTVerifyGetKey> {
    try {
      const bytes = await this.#file.read()
      if (this.#imported?.bytes === bytes) return this.#imported.keys
      const keys = createLocalJWKSet(parseKeySet(bytes.toString()))
      this.#imported = { bytes, keys }
      return keys
    } catch (error) {
      const reason = reasonOf(error)
      throw new Error(
        `Cannot use the JWKS file ${this.#file.path}: ${reason}. Every token is refused until it holds {"keys": […]}, as the issuer publishes it.`,
        { cause: error },
      )
    }
  }
}

function parseKeySet(text: string): JSONWebKeySet {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The parser's message quotes the file, which by mistake may be a token or a key.
    throw new TypeError('it is not valid JSON')
  }
  if (isKeySet(value)) return value
  throw new TypeError('it has no list "keys" with a key in it')
}

function isKeySet(value: unknown): value is JSONWebKeySet {
  return (
    typeof value === 'object' && value !== null && 'keys' in value && Array.isArray(value.keys) && value.keys.length > 0
  )
}

function checkOptions({ issuer, trustDomain }: JwtTokensOptions): void {
  if (issuer === '')
    throw new TypeError(
      'Cannot accept JWTs: issuer is empty. Name the "iss" of the tokens, so that no other is accepted.',
    )
  const problem = trustDomainProblem(trustDomain)
  if (problem) throw new TypeError(`Cannot accept JWTs: trustDomain ${JSON.stringify(trustDomain)} ${problem}`)
}

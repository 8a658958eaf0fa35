/** Authenticates the callers of the CA server: by listed tokens, and by certificates that its own CA has issued. */
import { createHash } from 'node:crypto'
import { parseSpiffeId, type SpiffeId } from '@livery/core/plugin'
import type { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'

/** The credentials that a call brought along. */
export interface CallerCredentials {
  /** The token of the header `authorization: Bearer …`. */
  readonly bearerToken?: string
  /** DER of the client certificate, whose chain the TLS layer has verified. */
  readonly clientCertificate?: Uint8Array
}

/** The caller. */
export interface Caller {
  readonly identity: SpiffeId
  /** The workloads that a node's agent may ask for. */
  readonly impersonates?: ReadonlySet<SpiffeId>
  /** The DNS names that its certificates may carry; a wildcard covers the names that it stands for as well. */
  readonly dnsNames?: ReadonlySet<string>
  /** The grant to which a certificate that is issued now is bound; one without cannot renew itself. */
  readonly grant?: string
}

export interface Authenticator {
  /** The caller, or `undefined` if these credentials are not of this kind or not good. Rejects with a `CAError` while it cannot tell. */
  authenticate(credentials: CallerCredentials): Promise<Caller | undefined>
}

/** One token of {@link listedTokens}. */
export interface TokenGrant {
  /** Absent: the caller proves its identity in another way, and the grant only adds rights. */
  readonly token?: string | undefined
  readonly identity: SpiffeId
  /** The identities that a node's agent with this token may ask for. Absent: the token is a workload's. */
  readonly impersonates?: readonly SpiffeId[]
  /** See {@link Caller.dnsNames}. */
  readonly dnsNames?: readonly string[] | undefined
}

/** The callers that are allowed now: the same array as before while nothing has changed. Must not reject. */
export type CurrentGrants = () => Promise<readonly TokenGrant[]>

/** Authenticates by the tokens of a list, which is read at each call. */
export function listedTokens(current: CurrentGrants): Authenticator {
  const index = new GrantIndex()
  return {
    authenticate: async ({ bearerToken }) =>
      bearerToken === undefined ? undefined : index.of(await current()).get(digest(bearerToken)),
  }
}

/** Authenticates by tokens that never change: for tests. Throws a `TypeError` for an empty or repeated token. */
export function staticTokens(grants: readonly TokenGrant[]): Authenticator {
  checkGrants(grants)
  return listedTokens(async () => grants)
}

/**
 * Authenticates by a certificate of `authority`, so that a workload renews with its own: while the list has the token
 * for which its certificate, or the first one in the chain of renewals, was issued.
 */
export function clientCertificates(authority: CertificateAuthority, current: CurrentGrants): Authenticator {
  const index = new GrantIndex()
  return {
    authenticate: async ({ clientCertificate }) => {
      const identity = clientCertificate && authority.identify(clientCertificate)
      if (!identity) return undefined
      for (const [grant, listed] of index.of(await current()))
        if (listed.identity === identity && authority.isIssuedUnder(clientCertificate, grant))
          return { identity, grant, ...(listed.dnsNames && { dnsNames: listed.dnsNames }) }
      return undefined
    },
  }
}

/** Throws a `TypeError` for an empty or repeated token, which it does not show. */
export function checkGrants(grants: readonly TokenGrant[]): void {
  const seen = new Set<string>()
  for (const grant of grants) {
    caller(grant)
    const { token, identity } = grant
    if (token === undefined) continue
    if (token === '') throw new TypeError(`Cannot use the token of ${identity}: it is empty`)
    if (seen.has(digest(token))) throw new TypeError(`Cannot use the token of ${identity}: another caller has it too`)
    seen.add(digest(token))
  }
}

export function caller({ identity, impersonates, dnsNames }: Omit<TokenGrant, 'token'>): Caller {
  parseSpiffeId(identity)
  return {
    identity,
    ...(impersonates && { impersonates: new Set(impersonates.map(parseSpiffeId)) }),
    ...(dnsNames && { dnsNames: new Set(dnsNames) }),
  }
}

/** A caller with a wildcard can pass for each host that it stands for, and so may have its name. */
export function mayHave({ dnsNames }: Caller, name: string): boolean {
  return dnsNames !== undefined && (dnsNames.has(name) || dnsNames.has(name.replace(/^[^.]+/, '*')))
}

/** Callers by the digest of their token, so that the time of a look-up reveals nothing about a token. */
class GrantIndex {
  #grants: readonly TokenGrant[] | undefined
  #callers: ReadonlyMap<string, Caller> = new Map()

  of(grants: readonly TokenGrant[]): ReadonlyMap<string, Caller> {
    if (grants === this.#grants) return this.#callers
    this.#callers = new Map(
      grants.flatMap(({ token, ...granted }) => {
        if (token === undefined) return []
        const grant = digest(token)
        return [[grant, { ...caller(granted), grant }] as const]
      }),
    )
    this.#grants = grants
    return this.#callers
  }
}

function digest(token: string): string {
  return createHash('sha256').update(token).digest('base64')
}

/** How the CA server finds out who calls: tokens that are listed, and certificates that its own CA has issued. */
import { createHash } from 'node:crypto'
import { parseSpiffeId, type SpiffeId } from '@livery/core/plugin'
import type { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'

/** The credentials that a call brought along. */
export interface CallerCredentials {
  /** Of the header `authorization: Bearer …`. */
  readonly bearerToken?: string
  /** DER of the client certificate, whose chain the TLS layer has verified. */
  readonly clientCertificate?: Uint8Array
}

/** The caller. */
export interface Caller {
  readonly identity: SpiffeId
  /** Of a node's agent: the workloads for which it may ask. */
  readonly impersonates?: ReadonlySet<SpiffeId>
  /** The DNS names that its certificates may carry; with a wildcard, the names that it stands for as well. */
  readonly dnsNames?: ReadonlySet<string>
  /** The grant to which a certificate that is issued now is bound; one without cannot renew itself. */
  readonly grant?: string
}

export interface Authenticator {
  /** The caller, or `undefined` if these credentials are not of this kind or not good. Rejects with a `CAError` while that cannot be said. */
  authenticate(credentials: CallerCredentials): Promise<Caller | undefined>
}

/** One token of {@link listedTokens}. */
export interface TokenGrant {
  /** Absent: the caller proves its identity in another way, and the grant says what it is allowed. */
  readonly token?: string | undefined
  readonly identity: SpiffeId
  /** If given, the token is that of a node's agent, which may ask for these identities. */
  readonly impersonates?: readonly SpiffeId[]
  /** See {@link Caller.dnsNames}. */
  readonly dnsNames?: readonly string[] | undefined
}

/** The callers that are allowed now: the same array as before while nothing has changed. Must not reject. */
export type CurrentGrants = () => Promise<readonly TokenGrant[]>

/** Callers by the tokens of a list, which is looked at for each call. */
export function listedTokens(current: CurrentGrants): Authenticator {
  const index = new GrantIndex()
  return {
    authenticate: async ({ bearerToken }) =>
      bearerToken === undefined ? undefined : index.of(await current()).get(digest(bearerToken)),
  }
}

/** Callers by tokens that never change: for tests. Throws a `TypeError` for an empty or repeated token. */
export function staticTokens(grants: readonly TokenGrant[]): Authenticator {
  checkGrants(grants)
  return listedTokens(async () => grants)
}

/**
 * Callers by a certificate of `authority`, so that a workload renews with the one it has: while the token is listed under
 * which its certificate, or the first in the row of its renewals, was issued to it.
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

/** Whoever has a wildcard can pass for each host that it stands for, and so may have its name. */
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

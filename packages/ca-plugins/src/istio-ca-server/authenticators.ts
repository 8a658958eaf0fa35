/** How the CA server finds out who calls: tokens that are listed, and certificates that its own CA has issued. */
import { createHash } from 'node:crypto'
import { parseSpiffeId, type SpiffeId } from '@livery/core'
import type { CertificateAuthority } from '../embedded/certificate-authority.ts'

/** What a call brought along. */
export interface CallerCredentials {
  /** Of the header `authorization: Bearer …`. */
  readonly bearerToken?: string
  /** DER of the client certificate, whose chain the TLS layer has verified. */
  readonly clientCertificate?: Uint8Array
}

/** Who calls. */
export interface Caller {
  readonly identity: SpiffeId
  /** Of a node's agent: the workloads for which it may ask. */
  readonly impersonates?: ReadonlySet<SpiffeId>
}

export interface Authenticator {
  /** The caller, or `undefined` if these credentials are not of this kind or not good. Must not reject. */
  authenticate(credentials: CallerCredentials): Promise<Caller | undefined>
}

/** One token of {@link staticTokens}. */
export interface TokenGrant {
  readonly token: string
  readonly identity: SpiffeId
  /** If given, the token is that of a node's agent, which may ask for these identities. */
  readonly impersonates?: readonly SpiffeId[]
}

/** Callers by tokens that never change: for trials and tests. Throws a `TypeError` for an empty or repeated token. */
export function staticTokens(grants: readonly TokenGrant[]): Authenticator {
  // By digest, so that the time of a look-up tells nothing about a token.
  const callers = new Map<string, Caller>()
  for (const { token, identity, impersonates } of grants) {
    if (token === '') throw new TypeError(`Cannot use the token of ${identity}: it is empty`)
    if (callers.has(digest(token)))
      throw new TypeError(`Cannot use the token of ${identity}: another caller has it too`)
    callers.set(digest(token), caller(identity, impersonates))
  }
  return {
    authenticate: async ({ bearerToken }) => (bearerToken === undefined ? undefined : callers.get(digest(bearerToken))),
  }
}

/** Callers by a certificate of `authority`, so that a workload renews with the one it has. */
export function clientCertificates(authority: CertificateAuthority): Authenticator {
  return {
    authenticate: async ({ clientCertificate }) => {
      const identity = clientCertificate && authority.identify(clientCertificate)
      return identity && { identity }
    },
  }
}

export function caller(identity: SpiffeId, impersonates: readonly SpiffeId[] | undefined): Caller {
  parseSpiffeId(identity)
  return impersonates ? { identity, impersonates: new Set(impersonates.map(parseSpiffeId)) } : { identity }
}

function digest(token: string): string {
  return createHash('sha256').update(token).digest('base64')
}

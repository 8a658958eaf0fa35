/** The interface of credentials for a CA: tokens that are read or fetched when they are used. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'

export interface CredentialRequest {
  /** The identity whose certificate is requested with the token; absent: not for a single one, or the source is in a module. */
  readonly identity?: SpiffeId
  /** The audience of the token, where the source can choose; absent: as the source is configured. */
  readonly audience?: string
  /** An identity's own token file, which takes precedence over the source's. */
  readonly tokenFile?: string
  readonly signal: AbortSignal
}

/** A bearer token. Prints, serialises and clones nowhere: keep it in a local variable. */
export interface Credential {
  readonly token: string
  /** Milliseconds since the epoch, where the token or its source says so. */
  readonly expiresAt?: number
}

/** A source of bearer tokens. It holds no token longer than its source allows, and is safe to ask concurrently. */
export interface CredentialSource {
  /** Names its source in messages: `the token in /var/run/secrets/tokens/istio-token`. Never the token. */
  readonly description: string
  /**
   * Whether a token is configured at all; absent: always. Without one the client certificate of the connection
   * authenticates the request, and `get` rejects with `unauthenticated`.
   */
  isConfigured?(request: Pick<CredentialRequest, 'tokenFile'>): boolean
  /** Whether the token depends on the identity of the request: then it is good for no other identity. */
  readonly isPerIdentity?: boolean
  /**
   * A token that has not expired. Rejects with a `CAError` `unauthenticated` that says what is wrong with the token and
   * what to do, with `unavailable`, `timeout`, `rate-limited` or `bad-response` if the source itself cannot be asked or
   * understood, or with the signal's reason.
   */
  get(request: CredentialRequest): Promise<Credential>
}

/** The interface of whatever proves to a CA who asks: tokens that are read or fetched when they are used. */

export interface CredentialRequest {
  /** Whom the token is for, where the source can choose; absent: as the source is configured. */
  readonly audience?: string
  /** An identity's own token file, which goes before the source's. */
  readonly tokenFile?: string
  readonly signal: AbortSignal
}

/** A bearer token. Prints, serialises and clones nowhere: keep it in a local variable. */
export interface Credential {
  readonly token: string
  /** Milliseconds since the epoch, where the token or its source tells. */
  readonly expiresAt?: number
}

/** A source of bearer tokens. It holds no token longer than its source allows, and is safe to ask concurrently. */
export interface CredentialSource {
  /** What it reads, for messages: `the token in /var/run/secrets/tokens/istio-token`. Never the token. */
  readonly description: string
  /**
   * A token that has not expired. Rejects with a `CAError` `unauthenticated` that says what is wrong with the token and
   * what to do, with `unavailable` or `timeout` if the source itself cannot be asked, or with the signal's reason.
   */
  get(request: CredentialRequest): Promise<Credential>
}

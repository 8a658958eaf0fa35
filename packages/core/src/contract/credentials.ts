/** The interface of whatever proves to a CA who asks: tokens that are read or fetched when they are used. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import type { PluginLog } from './ca-plugin.ts'
import type { ConfigOf, PluginOptions } from './plugin-options.ts'

export interface CredentialRequest {
  /** The identity whose certificate is requested with the token; absent: not for a single one, or the source is in a module. */
  readonly identity?: SpiffeId
  /** The audience of the token, where the source can choose; absent: as the source is configured. */
  readonly audience?: string
  /** An identity's own token file, which goes before the source's. */
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
   * Whether there is a token to ask for at all; absent: always. Where there is none, the client certificate of the
   * connection has to prove who asks, and `get` rejects with `unauthenticated`.
   */
  isConfigured?(request: Pick<CredentialRequest, 'tokenFile'>): boolean
  /** Whether the token depends on the identity of the request: what it brings is then good for no other identity. */
  readonly isPerIdentity?: boolean
  /**
   * A token that has not expired. Rejects with a `CAError` `unauthenticated` that says what is wrong with the token and
   * what to do, with `unavailable`, `timeout`, `rate-limited` or `bad-response` if the source itself cannot be asked or
   * understood, or with the signal's reason.
   */
  get(request: CredentialRequest): Promise<Credential>
}

/** Raised when a source written for the old interface would no longer work. */
export const CREDENTIAL_PLUGIN_API_VERSION = 1

/** The agent's side of a credential plugin. */
export interface CredentialContext {
  readonly clock: Clock
  readonly log: PluginLog
  /** `tokenFile` under `ca:`, for sources that start from it. */
  readonly tokenFile?: string
  /** Absent where the agent does not know the workloads, and in a module. */
  readonly workloadTokens?: WorkloadTokens
}

/** Which token of a workload. */
export interface WorkloadTokenRequest {
  readonly identity: SpiffeId
  /** Whom the token is for. */
  readonly audience: string
  /** The wished lifetime in seconds; the issuer of the token decides. */
  readonly expirationSeconds: number
  readonly signal: AbortSignal
}

/** The tokens that the platform issues to the workloads of this node. */
export interface WorkloadTokens {
  /** Rejects as {@link CredentialSource.get} does. Calls for one token share one request. */
  get(request: WorkloadTokenRequest): Promise<Credential>
}

/** A kind of credentials that the agent can load: `credentials: { source: <name>, … }` under `ca:`. */
export interface CredentialPlugin<Options extends PluginOptions = PluginOptions> {
  readonly apiVersion: typeof CREDENTIAL_PLUGIN_API_VERSION
  /** For messages: lower case, digits and dashes. */
  readonly name: string
  /** The keys under `credentials:` beside `source`. Another key is refused. */
  readonly options: Options
  /** Throws an `OptionError` for values that do not go together, as `check` of a CA plugin does. */
  check?(config: ConfigOf<Options>): void
  /** A source for `config`, which `check` has let through. It holds no timer and no connection while nobody asks. */
  create(context: CredentialContext, config: ConfigOf<Options>): CredentialSource | Promise<CredentialSource>
}

/** `plugin` itself, with the types of its configuration worked out. */
export function defineCredentialPlugin<const Options extends PluginOptions>(
  plugin: CredentialPlugin<Options>,
): CredentialPlugin<Options> {
  return plugin
}

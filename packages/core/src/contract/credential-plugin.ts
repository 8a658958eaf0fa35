/** The contract of a credential plugin with third parties, stable under its `apiVersion`. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import type { PluginLog } from './ca-plugin.ts'
import type { Credential, CredentialSource } from './credentials.ts'
import type { ConfigOf, PluginOptions } from './plugin-options.ts'

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
  /** The audience (`aud`) of the token. */
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
  /** The name in messages: lower case, digits and dashes. */
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

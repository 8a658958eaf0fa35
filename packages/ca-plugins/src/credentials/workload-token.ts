/** The `workload-token` source: the token of each workload's own account, which the agent gets from the platform. */
import {
  type ConfigOf,
  type Credential,
  type CredentialContext,
  type CredentialRequest,
  type CredentialSource,
  defineCredentialPlugin,
  type PluginOptions,
  type WorkloadTokens,
} from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { readTokenFile } from './token-file.ts'

export const workloadTokenOptions = {
  audience: {
    type: 'string',
    required: true,
    problem: audience =>
      /^\S{1,253}$/.test(audience) ? undefined : 'is not one word. Write the audience that the CA expects',
    description: 'the audience of the token, which the CA expects, such as `istio-ca`',
  },
} as const satisfies PluginOptions

/** The requested lifetime; the API server decides. */
const EXPIRATION_SECONDS = 3_600

export const workloadToken = defineCredentialPlugin({
  apiVersion: 1,
  name: 'workload-token',
  options: workloadTokenOptions,
  create(context, config) {
    const { workloadTokens } = context
    if (workloadTokens) return new WorkloadToken(context, workloadTokens, config)
    throw new TypeError(
      'Cannot use the source workload-token: the agent does not know the workloads. Add the section kubernetes, or use token-file.',
    )
  },
})

class WorkloadToken implements CredentialSource {
  readonly isPerIdentity = true
  readonly description: string
  readonly #clock: CredentialContext['clock']
  /** The agent's own token, for calls that are for no single workload. */
  readonly #common: string | undefined
  readonly #tokens: WorkloadTokens
  readonly #config: ConfigOf<typeof workloadTokenOptions>

  constructor(
    { clock, tokenFile }: Pick<CredentialContext, 'clock' | 'tokenFile'>,
    tokens: WorkloadTokens,
    config: ConfigOf<typeof workloadTokenOptions>,
  ) {
    this.#clock = clock
    this.#common = tokenFile
    this.#tokens = tokens
    this.#config = config
    this.description = `the token of the workload's account for ${config.audience}`
  }

  async get({ identity, tokenFile, signal }: CredentialRequest): Promise<Credential> {
    const file = tokenFile ?? (identity === undefined ? this.#common : undefined)
    if (file !== undefined) return readTokenFile(file, this.#clock, signal)
    const { audience } = this.#config
    if (identity !== undefined)
      return this.#tokens.get({ identity, audience, expirationSeconds: EXPIRATION_SECONDS, signal })
    throw caError('unauthenticated', {
      action: `get ${this.description}`,
      reason: 'the call is for no single workload',
      remedy: "Set tokenFile under ca to the agent's own token",
      local: true,
    })
  }
}

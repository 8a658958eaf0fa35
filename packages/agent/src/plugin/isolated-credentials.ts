/** A source of credentials that runs in a process. */
import {
  CAError,
  type Credential,
  type CredentialContext,
  type CredentialRequest,
  type CredentialSource,
} from '@livery/core/plugin'
import type { PluginModule } from './messages.ts'
import { PluginSupervisor } from './plugin-supervisor.ts'

/** Rejects with a `TypeError` if the plugin refuses its configuration. The caller disposes it. */
export async function createIsolatedCredentials(
  { module, name }: { readonly module: PluginModule; readonly name: string },
  { clock, log, tokenFile }: CredentialContext,
  config: unknown,
): Promise<CredentialSource & AsyncDisposable> {
  const what = `The source of credentials ${name} (${module.specifier})`
  const supervisor = new PluginSupervisor({
    module,
    what,
    start: { config, hasTls: false, ...(tokenFile !== undefined && { tokenFile }) },
    methods: {},
    clock,
    log,
    onRestart: () => {},
  })
  const described = await supervisor.start()
  const description = typeof described === 'string' ? described : `the token of ${module.specifier}`
  return {
    description,
    // The identity is left out: identities share the tokens, since the agent cannot know whether they depend on it.
    async get({ signal, identity: _, ...request }: CredentialRequest): Promise<Credential> {
      const { token, expiresAt }: Partial<Credential> = (await supervisor.call('getCredential', request, signal)) ?? {}
      if (typeof token === 'string' && token !== '')
        return { token, ...(typeof expiresAt === 'number' && Number.isFinite(expiresAt) && { expiresAt }) }
      throw new CAError('bad-response', `${what} gave no token. Install a version that works.`)
    },
    [Symbol.asyncDispose]: () => supervisor[Symbol.asyncDispose](),
  }
}

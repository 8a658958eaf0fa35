/** Runs in a plugin's process: answers the agent with a source of credentials. */
import {
  type ConfigOf,
  type CredentialPlugin,
  type CredentialSource,
  type PluginOptions,
  SystemClock,
} from '@livery/core/plugin'
import { logTo } from './host-ca.ts'
import type { AgentMethods, PluginMethods } from './messages.ts'
import type { Peer } from './two-way-calls.ts'

export function hostCredentials(
  load: () => Promise<CredentialPlugin>,
  agent: () => Peer<AgentMethods>,
): Pick<PluginMethods, 'create' | 'getCredential' | 'close'> {
  const made = Promise.withResolvers<CredentialSource>()
  made.promise.catch(() => {}) // the agent has it as the answer to `create`
  return {
    async create({ config, tokenFile }) {
      try {
        const plugin = await load()
        const context = { clock: new SystemClock(), log: logTo(agent), ...(tokenFile !== undefined && { tokenFile }) }
        const source = await plugin.create(context, config as ConfigOf<PluginOptions>)
        if (typeof source?.get !== 'function') throw new Error('its create() gave no source with get')
        made.resolve(source)
        return String(source.description)
      } catch (error) {
        made.reject(error)
        throw error
      }
    },
    async getCredential(request, signal) {
      const source = await made.promise
      const { token, expiresAt } = await source.get({ ...request, signal })
      return { token, ...(typeof expiresAt === 'number' && { expiresAt }) }
    },
    async close() {},
  }
}

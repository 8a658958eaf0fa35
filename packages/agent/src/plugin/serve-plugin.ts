/** Runs in a plugin's process: answers the agent for the module. */

import type { CAPlugin, ConfigOf, CredentialPlugin, PluginKind, PluginOptions } from '@livery/core/plugin'
import { faultText } from '../schema/fault.ts'
import { hostCA } from './host-ca.ts'
import { hostCredentials } from './host-credentials.ts'
import type { LoadedModule } from './load-module.ts'
import type { AgentMethods, Section } from './messages.ts'
import { manifestOf, problemOf } from './plugin-manifest.ts'
import { Peer, type Port } from './two-way-calls.ts'

/** A plugin that fails to load is reported at the agent's first call. */
export function servePlugin(kind: PluginKind, loading: Promise<LoadedModule>, port: Port): void {
  const plugin = async (): Promise<CAPlugin | CredentialPlugin> => {
    const loaded = await loading
    if ('faults' in loaded) throw new Error(loaded.faults.map(faultText).join(' '))
    return loaded.plugin
  }
  const peer: Peer<AgentMethods> = new Peer(port, {
    async describe() {
      const loaded = await loading
      if ('faults' in loaded) return { kind: 'faults', faults: loaded.faults }
      return { kind: 'plugin', manifest: manifestOf(loaded.plugin) }
    },
    async problems(questions: Parameters<typeof problemOf>[1][]) {
      const { options } = await plugin()
      return questions.map(question => problemOf(options, question))
    },
    async check({ config, siblings }: Section) {
      // JSON has no sets.
      await (await plugin()).check?.(config as ConfigOf<PluginOptions>, new Set(siblings))
    },
    ping() {},
    ...(kind === 'ca'
      ? hostCA(
          async () => (await plugin()) as CAPlugin,
          () => peer,
        )
      : hostCredentials(
          async () => (await plugin()) as CredentialPlugin,
          () => peer,
        )),
  })
}

/** What runs in the thread of a plugin: it loads the module, and answers the agent for it. */
import { parentPort, workerData } from 'node:worker_threads'
import type { CAPlugin, ConfigOf, CredentialPlugin, PluginOptions } from '@livery/core'
import { hostCA } from './host-ca.ts'
import { hostCredentials } from './host-credentials.ts'
import { type LoadedModule, loadModule } from './load-module.ts'
import type { AgentMethods, PluginModule, Section } from './messages.ts'
import { Peer } from './peer.ts'
import { manifestOf, problemOf } from './plugin-shape.ts'

if (!parentPort) throw new TypeError('This file is the main of a thread')
const module: PluginModule = workerData
// A plugin that fails to load is told of when it is asked for.
const loading = loadModule(module)

const plugin = async (): Promise<CAPlugin | CredentialPlugin> => {
  const loaded: LoadedModule = await loading
  if ('faults' in loaded) throw new Error(loaded.faults.join(' '))
  return loaded.plugin
}

const peer: Peer<AgentMethods> = new Peer(parentPort, {
  async describe() {
    const loaded = await loading
    if ('faults' in loaded) return { kind: 'faults', faults: loaded.faults }
    return { kind: 'plugin', manifest: manifestOf(loaded.plugin) }
  },
  async problems(questions: Parameters<typeof problemOf>[1][]) {
    const { options } = await plugin()
    return questions.map(question => problemOf(options, question))
  },
  async check({ config, beside }: Section) {
    await (await plugin()).check?.(config as ConfigOf<PluginOptions>, beside)
  },
  ping() {},
  ...(module.kind === 'ca'
    ? hostCA(
        async () => (await plugin()) as CAPlugin,
        () => peer,
      )
    : hostCredentials(
        async () => (await plugin()) as CredentialPlugin,
        () => peer,
      )),
})

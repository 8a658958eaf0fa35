/** The last module: from here on the agent serves, and follows its configuration. */
import type { SecretManager } from '@livery/core'
import type { SdsServer, SocketConfig } from '@livery/sds-server'
import type { AdminEndpoints } from '../admin/admin-endpoints.ts'
import type { LiveConfig } from '../sds/live-config.ts'
import { warnOfOpenSockets } from '../sds/sds-sockets.ts'
import type { Start } from './basis.ts'
import { ConfigReloader } from './config-reloader.ts'
import { logStart } from './start-report.ts'

interface Needs extends Start {
  readonly secrets: SecretManager
  readonly endpoints: AdminEndpoints
  readonly tried: Promise<void>
  readonly sds: SdsServer
  readonly sockets: readonly SocketConfig[]
  readonly live: LiveConfig
  readonly predecessor?: { ask(step: 'serving'): Promise<void> } | undefined
}

/** `reloader`: absent if the agent was started without a way to load its configuration. */
export const serve = {
  async open(made: Needs) {
    const { config, life, scopes, keyGenerator, endpoints, tried, sds, sockets, predecessor } = made
    const reloader = openReloader(made)
    life.serve(sds)
    await predecessor?.ask('serving')
    warnOfOpenSockets(sockets, scopes.of('sds'))
    await tried
    logStart(config, endpoints.addresses, { sockets, keyGenerator: keyGenerator.name }, scopes.of('agent'))
    return { reloader }
  },
}

function openReloader({ load, lastRead, live, clock, scopes, log, metrics, secrets, life }: Needs) {
  if (!load) return undefined
  const options = { load, lastRead, live, clock, scopes, log, metrics: metrics.reloads, secrets }
  const reloader = life.parts.use(new ConfigReloader(options))
  life.own({ leave: () => reloader[Symbol.asyncDispose]() })
  return reloader
}

/** The last module: the agent serves from here on, and follows its configuration. */
import type { SecretManager } from '@livery/core'
import type { SdsServer, SocketConfig } from '@livery/sds-server'
import type { AdminEndpoints } from '../admin/admin-endpoints.ts'
import { describeCA } from '../ca/create-ca-client.ts'
import type { Basis } from '../life/basis.ts'
import { VERSION } from '../life/version.ts'
import { formatListenAddress } from '../schema/values.ts'
import type { LiveConfig } from '../sds/live-config.ts'
import { describeSocket, warnOfOpenSockets } from '../sds/sds-sockets.ts'
import { ConfigReloader } from './config-reloader.ts'

interface Needs extends Basis {
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
    const { life, scopes, tried, sds, sockets, predecessor } = made
    const reloader = openReloader(made)
    made.metrics.add([
      {
        name: 'livery_config_reload_total',
        help: 'Times the configuration was read again, by result: success, or failure, which leaves the old one in force.',
        labels: ['result'],
        read: () => [
          [reloader?.counts.success ?? 0, 'success'],
          [reloader?.counts.failure ?? 0, 'failure'],
        ],
      },
    ])
    life.serve(sds)
    await predecessor?.ask('serving')
    warnOfOpenSockets(sockets, scopes.of('sds'))
    await tried
    logStart(made)
    return { reloader }
  },
}

function openReloader({ load, lastRead, live, clock, scopes, log, secrets, life }: Needs) {
  if (!load) return undefined
  const options = { load, lastRead, live, clock, scopes, log, secrets }
  const reloader = life.parts.use(new ConfigReloader(options))
  life.own({ leave: () => reloader[Symbol.asyncDispose]() })
  return reloader
}

/** Limits the lines: a node can have a socket for each of its thousand pods. */
const SOCKET_LINES = 10

/** Logs what is served, and to whom. */
function logStart({ config, scopes, keyGenerator, sockets, endpoints }: Needs): void {
  const logger = scopes.of('agent')
  for (const socket of sockets.slice(0, SOCKET_LINES)) logger.info(describeSocket(socket))
  if (sockets.length > SOCKET_LINES) logger.info(`and ${sockets.length - SOCKET_LINES} more sockets`)
  const { admin, health } = endpoints.addresses
  const ca = describeCA(config.ca)
  const keys = `${config.keyType}, ${keyGenerator.name}`
  const address = formatListenAddress(admin)
  const isOpen = endpoints.adminListens
  const fields = {
    version: VERSION,
    trustDomain: config.trustDomain,
    identities: config.identities.length,
    sockets: sockets.length,
    admin: address,
    health: health && formatListenAddress(health),
    ca,
    keys,
  }
  logger.info(
    fields,
    `livery ${VERSION} serves ${config.trustDomain}, identities: ${config.identities.length}; CA: ${ca}; keys: ${keys}; admin: ${isOpen ? '' : 'waits for '}${address}`,
  )
  // `npm start` has the program on its PATH, the shell beside it does not.
  const command = process.env['npm_command'] === undefined ? 'livery' : 'npx livery'
  // Without its endpoint, another program would answer there.
  const page = 'path' in admin ? '' : `open http://${address}/, or `
  logger.info(`next: ${isOpen ? `${page}type "${command} certs" or "${command} doctor"` : `type "${command} doctor"`}`)
}

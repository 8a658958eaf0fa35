/** Opens the admin endpoint and the health endpoint, and gives them the running agent to answer from. */
import { type Clock, isSpiffeId, type SecretManager } from '@livery/core'
import { readPeerCredentials } from '@livery/native-keygen'
import { AdminServer } from '../admin/admin-server.ts'
import type { AdminSource } from '../admin/routes.ts'
import type { LoadedConfig } from '../config/load.ts'
import { configJson } from '../config/print.ts'
import type { EventLog } from '../observe/event-log.ts'
import type { Ledger } from '../observe/ledger.ts'
import type { Logger } from '../observe/logger.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { ListenAddress } from '../schema/values.ts'
import type { Lifecycle } from './lifecycle.ts'
import { VERSION } from './version.ts'

/** The parts of the agent that the endpoints read. */
export interface AdminParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly log: EventLog
  readonly metrics: Metrics
  readonly ledger: Ledger
  readonly secrets: SecretManager
  readonly lifecycle: Lifecycle
}

/** The addresses that the endpoints listen on. */
export interface AdminAddresses {
  readonly admin: ListenAddress
  /** `undefined` if none is configured. */
  readonly health: ListenAddress | undefined
}

/** Rejects with an `Error` that names the address, the cause and the remedy. The servers are added to the lifecycle. */
export async function openAdminEndpoints(loaded: LoadedConfig, parts: AdminParts): Promise<AdminAddresses> {
  const { admin: file, health } = loaded.config
  const source = adminSource(loaded, parts)
  const listen = async (routes: 'admin' | 'health', address: ListenAddress): Promise<ListenAddress> => {
    const onError = (err: unknown) => parts.logger.error({ err }, `the ${routes} endpoint failed to answer`)
    const server = await AdminServer.listen({ routes, address, source, onError, file, readPeerCredentials })
    return parts.lifecycle.parts.use(server).address
  }
  return { admin: await listen('admin', file.address), health: health && (await listen('health', health.address)) }
}

function adminSource(loaded: LoadedConfig, parts: AdminParts): AdminSource {
  const { config } = loaded
  const { clock, logger, log, metrics, ledger, secrets, lifecycle } = parts
  return {
    version: VERSION,
    trustDomain: config.trustDomain,
    names: config.names,
    clock,
    config: () => lifecycle.serving?.reloader?.json() ?? configJson(loaded),
    phase: () => lifecycle.phase,
    // A socket that drains is closed, and no longer among those that are configured.
    sockets: () => (lifecycle.serving?.sds.sockets() ?? []).filter(({ state }) => state !== 'closed'),
    entries: () => secrets.entries(),
    entry: identity => secrets.entry(identity),
    bundles: () => secrets.bundles(),
    rotations: () => secrets.rotations(),
    changeRoot: (action, fingerprint) => secrets.changeRoot(action, fingerprint),
    explain: name => ledger.entries(name),
    renew: name => isSpiffeId(name) && secrets.renew(name),
    metrics,
    log: logger,
    tokenFile: config.admin.tokenFile,
    security: (event, fields, message) => log.security(event, fields, message),
  }
}

/** Opens the admin endpoint and the health endpoint, and gives them the running agent to answer from. */
import { type Clock, type FileStore, isSpiffeId, type KeyGenerator, type SecretManager } from '@livery/core'
import { readPeerCredentials } from '@livery/native-keygen'
import { AdminServer } from '../admin/admin-server.ts'
import type { AdminSource } from '../admin/admin-source.ts'
import type { LoadedConfig } from '../config/load.ts'
import { configJson } from '../config/print.ts'
import type { EventLog } from '../observe/event-log.ts'
import type { Ledger } from '../observe/ledger.ts'
import type { LogScopes } from '../observe/log-scopes.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { ListenAddress } from '../schema/values.ts'
import type { Predecessor } from '../takeover/predecessor.ts'
import { signsNow } from './create-ca-client.ts'
import type { Lifecycle } from './lifecycle.ts'
import { VERSION } from './version.ts'

/** The parts of the agent that the endpoints read. */
export interface AdminParts {
  readonly clock: Clock
  readonly scopes: LogScopes
  readonly log: EventLog
  readonly metrics: Metrics
  readonly ledger: Ledger
  readonly secrets: SecretManager
  readonly keyGenerator: KeyGenerator
  /** Absent if none is configured. */
  readonly store: Pick<FileStore, 'directory' | 'unwritten' | 'failure'> | undefined
  readonly lifecycle: Lifecycle
}

/** The addresses that the endpoints listen on. */
export interface AdminAddresses {
  readonly admin: ListenAddress
  /** `undefined` if none is configured. */
  readonly health: ListenAddress | undefined
}

/** The listening endpoints, which a successor can ask for. */
export class AdminEndpoints implements AsyncDisposable {
  readonly #listen: (addresses: AdminAddresses) => Promise<readonly AdminServer[]>
  #servers: readonly AdminServer[] = []
  #addresses: AdminAddresses

  private constructor(loaded: LoadedConfig, parts: AdminParts) {
    const { admin: file, health } = loaded.config
    const source = adminSource(loaded, parts)
    const listen = (routes: 'admin' | 'health', address: ListenAddress): Promise<AdminServer> => {
      const onError = (err: unknown) =>
        parts.scopes.of('admin').error({ err }, `the ${routes} endpoint failed to answer`)
      return AdminServer.listen({ routes, address, source, onError, file, readPeerCredentials })
    }
    this.#addresses = { admin: file.address, health: health?.address }
    this.#listen = async addresses => {
      await using opened = new AsyncDisposableStack()
      const admin = opened.use(await listen('admin', addresses.admin))
      const servers = addresses.health ? [admin, opened.use(await listen('health', addresses.health))] : [admin]
      opened.move()
      return servers
    }
  }

  /**
   * Rejects with an `Error` that names the address, the cause and the remedy. An address that `predecessor` has is asked
   * of it.
   */
  static async open(loaded: LoadedConfig, parts: AdminParts, predecessor?: Predecessor): Promise<AdminEndpoints> {
    const endpoints = new AdminEndpoints(loaded, parts)
    try {
      await endpoints.reopen()
    } catch (error) {
      if (!predecessor) throw error
      await predecessor.ask('addresses')
      await endpoints.reopen()
    }
    return endpoints
  }

  get addresses(): AdminAddresses {
    return this.#addresses
  }

  /** Listens on the same addresses as before, with the ports that the kernel chose. */
  async reopen(): Promise<void> {
    if (this.#servers.length > 0) return
    this.#servers = await this.#listen(this.#addresses)
    const [admin, health] = this.#servers
    if (admin) this.#addresses = { admin: admin.address, health: health?.address }
  }

  async close(): Promise<void> {
    const servers = this.#servers
    this.#servers = []
    for (const server of servers) await server[Symbol.asyncDispose]()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

function adminSource(loaded: LoadedConfig, parts: AdminParts): AdminSource {
  const { config } = loaded
  const { clock, scopes, log, metrics, ledger, secrets, keyGenerator, store, lifecycle } = parts
  return {
    version: VERSION,
    trustDomain: config.trustDomain,
    names: config.names,
    fileNames: new Map(Object.entries(config.files.names)),
    clock,
    caPlugin: config.ca.plugin.name,
    requestedTtlMs: signsNow(config.ca) ? config.ttl : undefined,
    keyGenerator,
    config: () => lifecycle.serving?.reloader?.json() ?? configJson(loaded),
    phase: () => lifecycle.phase,
    // A socket that drains is closed, and no longer among those that are configured.
    sockets: () => (lifecycle.serving?.sds.sockets() ?? []).filter(({ state }) => state !== 'closed'),
    sds: () => lifecycle.serving?.sds,
    pods: () => lifecycle.serving?.pods?.status(),
    podOf: subject => lifecycle.serving?.pods?.nameOf(subject),
    identities: () => secrets.identities(),
    entries: () => secrets.entries(),
    entry: identity => secrets.entry(identity),
    bundles: () => secrets.bundles(),
    files: () => secrets.files?.entries() ?? [],
    rotations: () => secrets.rotations(),
    changeRoot: (action, fingerprint) => secrets.changeRoot(action, fingerprint),
    schedule: () => secrets.schedule(),
    plannedPerMinute: () => secrets.plannedPerMinute(),
    refusedConnections: () => metrics.sds.refusedConnections(),
    store: () => store,
    onChange: listener => secrets.events.subscribe(({ name }) => listener(name)),
    explain: name => ledger.entries(name),
    renew: name => isSpiffeId(name) && secrets.renew(name),
    metrics,
    log: scopes,
    tokenFile: config.admin.tokenFile,
    security: (event, fields, message) => log.admin(event, fields, message),
  }
}

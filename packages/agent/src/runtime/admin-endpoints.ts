/** Opens the admin endpoint and the health endpoint, and closes them for a successor. */
import { readPeerCredentials } from '@livery/native-keygen'
import { AdminServer } from '../admin/admin-server.ts'
import type { AdminSource } from '../admin/admin-source.ts'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'
import type { ListenAddress } from '../schema/values.ts'
import type { Predecessor } from '../takeover/predecessor.ts'

export interface AdminEndpointsParts {
  /** Answered from. */
  readonly source: AdminSource
  readonly logger: Logger
  /** The agent that this one takes over from, if there is one. */
  readonly predecessor: Predecessor | undefined
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

  private constructor({ admin: file, health }: Config, { source, logger }: AdminEndpointsParts) {
    const listen = (routes: 'admin' | 'health', address: ListenAddress): Promise<AdminServer> => {
      const onError = (err: unknown) => logger.error({ err }, `the ${routes} endpoint failed to answer`)
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
   * Rejects with an `Error` that names the address, the cause and the remedy. An address that the predecessor has is asked
   * of it.
   */
  static async open(config: Config, parts: AdminEndpointsParts): Promise<AdminEndpoints> {
    const { predecessor } = parts
    const endpoints = new AdminEndpoints(config, parts)
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

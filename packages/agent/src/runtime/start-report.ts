/** Logs what the agent serves, and to whom, when it starts. */
import type { SocketConfig } from '@livery/sds-server'
import type { AdminAddresses } from '../admin/admin-endpoints.ts'
import { describeCA } from '../ca/create-ca-client.ts'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'
import { formatListenAddress } from '../schema/values.ts'
import { describeSocket } from '../sds/sds-sockets.ts'
import { VERSION } from './version.ts'

/** A node can have a socket for each of its thousand pods. */
const SOCKET_LINES = 10

export function logStart(
  config: Config,
  { admin, health }: AdminAddresses,
  { sockets, keyGenerator }: { readonly sockets: readonly SocketConfig[]; readonly keyGenerator: string },
  logger: Logger,
): void {
  for (const socket of sockets.slice(0, SOCKET_LINES)) logger.info(describeSocket(socket))
  if (sockets.length > SOCKET_LINES) logger.info(`and ${sockets.length - SOCKET_LINES} more sockets`)
  const ca = describeCA(config.ca)
  const keys = `${config.keyType}, ${keyGenerator}`
  const address = formatListenAddress(admin)
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
    `livery ${VERSION} serves ${config.trustDomain}, identities: ${config.identities.length}; CA: ${ca}; keys: ${keys}; admin: ${'path' in admin ? address : `http://${address}`}`,
  )
}

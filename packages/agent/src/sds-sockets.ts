/** From the configuration to the sockets of the SDS server: the shared ones, and one for each identity that has its own. */
import type { SocketConfig } from '@livery/sds-server'
import type { Config } from './config/load.ts'

export function sdsSockets({ sockets, identities }: Config): SocketConfig[] {
  const shared = sockets.map(({ owner, group, callers, ...socket }) => ({
    ...socket,
    ...(owner !== undefined && { owner }),
    ...(group !== undefined && { group }),
    ...(callers && { callers: callers.map(({ uid, allow }) => ({ uid, ...(allow && { allow }) })) }),
  }))
  const own = identities.flatMap(({ id, socket }) => (socket === undefined ? [] : [{ path: socket, identity: id }]))
  return [...shared, ...own]
}

/** From the configuration to the sockets of the SDS server: the shared ones, and one for each identity that has its own. */
import type { SocketConfig } from '@livery/sds-server'
import type { Config } from './config/load.ts'

export function sdsSockets({ sockets, identities, maxIdentities }: Config): SocketConfig[] {
  // Half of the room that the listed ones leave: no caller takes the last of it.
  const share = Math.max(1, Math.ceil((maxIdentities - identities.length) / 2))
  const shared = sockets.map(({ owner, group, callers, limits, ...socket }) => ({
    ...socket,
    limits: { ...limits, perCaller: { ...limits.perCaller, identities: limits.perCaller.identities ?? share } },
    ...(owner !== undefined && { owner }),
    ...(group !== undefined && { group }),
    ...(callers && { callers: callers.map(({ uid, allow }) => ({ uid, ...(allow && { allow }) })) }),
  }))
  const own = identities.flatMap(({ id, socket }) => (socket === undefined ? [] : [{ path: socket, identity: id }]))
  return [...shared, ...own]
}

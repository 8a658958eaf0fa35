/** From the configuration to the sockets of the SDS server: the shared ones, and one for each identity that has its own. */
import type { SocketConfig } from '@livery/sds-server'
import type { Config } from '../config/load.ts'

/** How many identities one caller may hold on demand: half of the room that the listed ones leave, so never the last of it. */
export function shareOnDemand({ identities, maxIdentities }: Config): number {
  return Math.max(1, Math.ceil((maxIdentities - identities.length) / 2))
}

/** `share`: where the configuration does not say it. */
export function sdsSockets({ sockets, identities }: Config, share: number): SocketConfig[] {
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

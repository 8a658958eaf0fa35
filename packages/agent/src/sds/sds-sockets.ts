/** Turns the configuration into the options and sockets of the SDS server: the shared sockets, and identities' own ones. */
import type { CallerRule, GivenLimits, SdsServerOptions, SocketConfig } from '@livery/sds-server'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'

/** Limit of identities that one caller may hold on demand: half of the room beside the listed ones, so never the last of it. */
export function shareOnDemand({ identities, maxIdentities }: Config): number {
  return Math.max(1, Math.ceil((maxIdentities - identities.length) / 2))
}

/** `share`: the result of `shareOnDemand`, for sockets whose `perCaller.identities` is not given. */
export function sdsSockets({ sockets, identities }: Config, share: number): SocketConfig[] {
  const shared = sockets.map(socket => ({ ...socket, limits: withShare(socket.limits, share) }))
  const own = identities.flatMap(({ id, socket }) => {
    if (!socket) return []
    const { limits, ...rest } = socket
    return [{ ...rest, identity: id, ...(limits && { limits: withShare(limits, share) }) }]
  })
  return [...shared, ...own]
}

function withShare({ perCaller, ...limits }: Config['sockets'][number]['limits'], share: number): GivenLimits {
  return { ...limits, perCaller: { ...perCaller, identities: perCaller.identities ?? share } }
}

/** The server's settings for connections and calls, on all sockets. */
export function serverOptions({ sds, names, files, drain, kubernetesSecrets }: Config): Partial<SdsServerOptions> {
  return {
    names,
    fileNames: files.names,
    ...(kubernetesSecrets && { namespace: kubernetesSecrets.namespaces[0] }),
    drainMs: drain,
    takeover: sds.takeover,
    refusedNames: sds.refusedNames,
  }
}

/** The log's description of what a socket serves, and to whom. */
export function describeSocket({ path, identity, identify, allow = [], callers }: SocketConfig): string {
  const allowed = allow.length > 0 ? allow : [...new Set(callers?.flatMap(caller => caller.allow ?? []))]
  const named = allowed.length === 0 ? [] : [`by name ${allowed.join(', ')}`]
  const shared = identify ? ['to each pod its identity', ...named] : named
  const served = shared.length === 0 ? 'only trust bundles, because allow is empty' : shared.join(', and ')
  const pods = identify ? 'pods' : undefined
  const who = callers ? callers.map(describeCaller).join(', ') : pods
  return `socket ${path}: ${identity ?? served}${who === undefined ? '' : ` (callers: ${who})`}`
}

function describeCaller({ uid, gid, selectors = [] }: CallerRule): string {
  const ids = [uid === undefined ? [] : [`uid ${uid}`], gid === undefined ? [] : [`gid ${gid}`]].flat()
  return [...ids, ...selectors].join(' with ')
}

/** A caller that can open a socket gets what it allows: a mode that admits everybody deserves a warning. */
export function warnOfOpenSockets(sockets: readonly SocketConfig[], logger: Logger): void {
  for (const { path, mode = 0, callers, identify } of sockets) {
    if (callers || identify || (mode & 0o006) === 0) continue
    logger.warn(
      `socket ${path}: every user of this machine may open it (mode ${mode.toString(8)}) and gets what it allows; set a mode such as "0660", or callers`,
    )
  }
}

/** The directory of callers for sockets that identify pods, if this machine lets the agent identify its peers. */
import { readPeerCgroups } from '@livery/native-keygen'
import type { Config } from '../config/load.ts'
import { ConfigError, UNWRITTEN } from '../schema/config-error.ts'
import { Fault } from '../schema/fault.ts'
import type { PodTable } from './pod.ts'
import { PodCallers } from './pod-callers.ts'
import { findRoots, normalizeRoot } from './pod-cgroup.ts'
import { readOwnCgroups } from './proc-view.ts'

const NO_ADDON = new Fault(
  'the native addon, which reads whose connection it is, is not there',
  'Install or build it (npm run native)',
)

/**
 * Throws a `ConfigError` if a socket identifies pods and this machine prevents it. Without such a socket that is no
 * error: returns `undefined`.
 */
export function identifyPods({ kubernetes, sockets, identities }: Config, pods: PodTable): PodCallers | undefined {
  const isInPod = process.env['KUBERNETES_SERVICE_HOST'] !== undefined
  const own = readPeerCgroups ? readOwnCgroups(isInPod) : NO_ADDON
  if (typeof own === 'string' && readPeerCgroups) {
    const root = kubernetes?.cgroupRoot
    return new PodCallers(pods, readPeerCgroups, root === undefined ? findRoots(own) : [normalizeRoot(root)])
  }
  const isWanted = [...sockets, ...identities.map(({ socket }) => socket)].some(socket => socket?.identify)
  if (!isWanted || typeof own === 'string') return undefined
  const { reason, remedy } = own
  throw new ConfigError([{ origin: UNWRITTEN, path: 'kubernetes', reason: `cannot identify pods: ${reason}`, remedy }])
}

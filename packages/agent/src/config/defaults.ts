/** The defaults of every key, in the form in which the configuration file would write them. */

import { FILE_DEFAULTS, DEFAULT_OPTIONS as MANAGER } from '@livery/core'
import { DEFAULT_RSA_KEYS } from '@livery/native-keygen/defaults'
import {
  DEFAULT_LIMITS,
  DEFAULT_MODE,
  DEFAULT_NAMES,
  DEFAULT_WORKLOAD_API,
  DEFAULT_OPTIONS as SERVER,
} from '@livery/sds-server/defaults'
import type { Path, TreeObject } from '../schema/config-tree.ts'
import { formatDuration } from '../schema/duration.ts'
import { DEFAULT_LEVEL } from '../schema/log-level.ts'

/** Where Istio and GKE mount the certificates of a workload. */
const WELL_KNOWN_FOLDERS = ['/etc/certs', '/var/run/secrets/workload-spiffe-credentials']

/** Keys that every configuration has. `log.format` depends on the terminal. */
export function defaults(options: { readonly terminal: boolean }): TreeObject {
  const { ratio, jitter, ackWaitMs } = MANAGER.rotation
  return {
    trustDomain: 'cluster.local',
    keyType: MANAGER.keyType,
    ttl: formatDuration(MANAGER.ttlSeconds * 1000),
    rotation: { ratio, jitter, ackWait: formatDuration(ackWaitMs) },
    trust: { poll: formatDuration(MANAGER.rootsPollMs), anchors: [], federated: {} },
    retry: { min: formatDuration(MANAGER.retry.minMs), max: formatDuration(MANAGER.retry.maxMs) },
    concurrency: MANAGER.concurrency,
    rsaKeys: DEFAULT_RSA_KEYS,
    identities: [],
    removal: { grace: formatDuration(MANAGER.removalGraceMs) },
    idle: { after: formatDuration(MANAGER.idle.afterMs), action: MANAGER.idle.action },
    maxIdentities: MANAGER.maxIdentities,
    sharedFolders: [],
    sockets: [],
    files: {
      wellKnown: [...WELL_KNOWN_FOLDERS],
      names: {},
      expired: FILE_DEFAULTS.expired,
      poll: formatDuration(FILE_DEFAULTS.pollMs),
    },
    names: { ...DEFAULT_NAMES },
    // Beside the first socket.
    admin: { address: 'unix:admin.sock' },
    sds: { takeover: SERVER.takeover, refusedNames: SERVER.refusedNames },
    drain: formatDuration(SERVER.drainMs),
    log: { level: DEFAULT_LEVEL, format: options.terminal ? 'pretty' : 'json' },
  }
}

const { perCaller, ...LIMITS } = DEFAULT_LIMITS
/** The default of `identities` depends on `maxIdentities`. */
const { identities: _, ...PER_CALLER } = perCaller

const OWN_SOCKET_DEFAULTS: TreeObject = {
  mode: `0${DEFAULT_MODE.toString(8)}`,
  workloadApi: DEFAULT_WORKLOAD_API.own,
  limits: { ...LIMITS, perCaller: PER_CALLER },
}

const OUTPUT_DEFAULTS: TreeObject = { mode: '0600', bundle: false }

const SOCKET_DEFAULTS: TreeObject = {
  ...OWN_SOCKET_DEFAULTS,
  workloadApi: DEFAULT_WORKLOAD_API.shared,
  allow: [],
  onDemand: false,
}

const KUBERNETES_DEFAULTS: TreeObject = {
  identity: 'spiffe://{trustDomain}/ns/{namespace}/sa/{serviceAccount}',
  selector: 'livery.dev/inject=true',
  namespaces: { only: [], except: [] },
}

/** The defaults of mappings that a configuration can leave out, each with its place; `*` is each entry of a list. */
export const OPTIONAL_DEFAULTS: readonly (readonly [path: Path, defaults: TreeObject])[] = [
  [['sockets', '*'], SOCKET_DEFAULTS],
  [['identities', '*', 'socket'], OWN_SOCKET_DEFAULTS],
  [['identities', '*', 'output'], OUTPUT_DEFAULTS],
  [['output'], OUTPUT_DEFAULTS],
  [['kubernetes'], KUBERNETES_DEFAULTS],
]

/** The defaults of every key, in the form in which the configuration file would write them. */
import { DEFAULT_POOL_CPU, DEFAULT_RSA_KEYS } from '@livery/native-keygen/defaults'
import { DEFAULT_LIMITS, DEFAULT_MODE, DEFAULT_NAMES, DEFAULT_OPTIONS } from '@livery/sds-server/defaults'
import type { TreeObject } from '../schema/config-tree.ts'

/** Keys that every configuration has. `log.format` depends on the terminal. */
export function defaults(options: { readonly terminal: boolean }): TreeObject {
  return {
    trustDomain: 'cluster.local',
    keyType: 'ecdsa-p256',
    ttl: '24h',
    rotation: { ratio: 0.5, jitter: 0.1, settle: '10s' },
    retry: { min: '500ms', max: '150s' },
    concurrency: 64,
    keyPool: { cpu: DEFAULT_POOL_CPU },
    rsaKeys: DEFAULT_RSA_KEYS,
    identities: [],
    removal: { grace: '5m' },
    idle: { after: '1h', action: 'renew' },
    maxIdentities: 20_000,
    sharedFolders: [],
    sockets: [],
    names: { ...DEFAULT_NAMES },
    admin: { address: '127.0.0.1:15100' },
    sds: {
      takeover: DEFAULT_OPTIONS.takeover,
      requestTimeout: seconds(DEFAULT_OPTIONS.requestTimeoutMs),
      fetchWait: seconds(DEFAULT_OPTIONS.fetchWaitMs),
      nacksPerMinute: DEFAULT_OPTIONS.nacksPerMinute,
      connectionIdle: seconds(DEFAULT_OPTIONS.connectionIdleMs),
      keepalive: seconds(DEFAULT_OPTIONS.keepaliveMs),
      keepaliveTimeout: seconds(DEFAULT_OPTIONS.keepaliveTimeoutMs),
    },
    drain: seconds(DEFAULT_OPTIONS.drainMs),
    log: { level: 'info', format: options.terminal ? 'pretty' : 'json' },
  }
}

const { perCaller, ...LIMITS } = DEFAULT_LIMITS
/** The default of `identities` depends on `maxIdentities`. */
const { identities: _, ...PER_CALLER } = perCaller

/** The defaults of an identity's own socket, where it is a mapping. */
export const OWN_SOCKET_DEFAULTS: TreeObject = {
  mode: `0${DEFAULT_MODE.toString(8)}`,
  limits: { ...LIMITS, perCaller: PER_CALLER },
}

/** The defaults of every entry of `sockets`. */
export const SOCKET_DEFAULTS: TreeObject = { ...OWN_SOCKET_DEFAULTS, allow: [], onDemand: false }

function seconds(ms: number): string {
  return `${ms / 1000}s`
}

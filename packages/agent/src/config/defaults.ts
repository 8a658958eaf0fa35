/** The defaults of every key, in the form in which the configuration file would write them. */
import { isTreeObject, type Tree, type TreeObject } from '../schema/document.ts'

/** Keys that every configuration has. `log.format` depends on the terminal. */
export function defaults(options: { readonly terminal: boolean }): TreeObject {
  return {
    trustDomain: 'cluster.local',
    keyType: 'ecdsa-p256',
    ttl: '24h',
    rotation: { ratio: 0.5, jitter: 0.1, settle: '10s' },
    retry: { min: '500ms', max: '150s' },
    concurrency: 64,
    keyPool: { cpu: 0.25 },
    identities: [],
    removal: { grace: '5m' },
    idle: { after: '1h', action: 'renew' },
    maxIdentities: 20_000,
    sharedFolders: [],
    sockets: [],
    names: { default: 'default', root: 'ROOTCA' },
    admin: { address: '127.0.0.1:15100' },
    drain: '5s',
    log: { level: 'info', format: options.terminal ? 'pretty' : 'json' },
  }
}

/** What every entry of `sockets`, and the own socket of an identity, has. */
export const SOCKET_DEFAULTS: TreeObject = {
  mode: '0660',
  allow: [],
  onDemand: false,
  limits: {
    connections: 20_000,
    streams: 40_000,
    names: 1_000,
    messageBytes: 262_144,
    perCaller: {
      connections: 10_000,
      streams: 20_000,
      names: 50_000,
      requestsPerSecond: 10_000,
      bytes: 536_870_912,
      identitiesPerMinute: 1_000,
    },
  },
}

/** Lays `upper` over `lower`: objects are merged key by key, everything else of `upper` wins whole. */
export function overlay(lower: Tree | undefined, upper: Tree | undefined): Tree | undefined {
  if (upper === undefined) return lower
  if (!isTreeObject(lower) || !isTreeObject(upper)) return upper
  const merged: Record<string, Tree> = Object.create(null)
  for (const key of new Set([...Object.keys(upper), ...Object.keys(lower)])) {
    const value = overlay(lower[key], upper[key])
    if (value !== undefined) merged[key] = value
  }
  return merged
}

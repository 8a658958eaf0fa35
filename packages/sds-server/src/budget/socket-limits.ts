/** The limits of one socket: for all its callers together, and for each. */
import { SdsServerError } from '../socket/sds-server-error.ts'
import type { PerCallerLimits } from './caller-budget.ts'

export interface SocketLimits {
  /** Connections at once. A caller may hold as many as remain free: at most half. Default: 20,000. */
  readonly connections: number
  /** Streams at once, on all connections together, shared in the same way. Default: 40,000. */
  readonly streams: number
  /** Names on one stream. Default: 1,000. */
  readonly names: number
  /** The longest request. Envoy's first is 61 kB and grows with each release. Default: 262,144. */
  readonly messageBytes: number
  /** The limits of each caller, over all sockets. */
  readonly perCaller: PerCallerLimits
}

/** Limits from a configuration: a missing one has its default. */
export type GivenLimits = Partial<Omit<SocketLimits, 'perCaller'>> & { readonly perCaller?: Partial<PerCallerLimits> }

export const DEFAULT_LIMITS: SocketLimits = {
  connections: 20_000,
  streams: 40_000,
  names: 1_000,
  messageBytes: 262_144,
  perCaller: {
    connections: 10_000,
    streams: 20_000,
    names: 50_000,
    requestsPerSecond: 10_000,
    bytes: 100_663_296,
    identities: 10_000,
    files: 1_000,
    identitiesPerMinute: 1_000,
  },
}

/** Fills in the defaults. Throws an `SdsServerError` (`invalid-config`) that names the limit and the socket at `path`. */
export function readLimits(given: GivenLimits | undefined, path: string): SocketLimits {
  const limits = { ...DEFAULT_LIMITS, ...given, perCaller: { ...DEFAULT_LIMITS.perCaller, ...given?.perCaller } }
  const { perCaller, ...own } = limits
  const inCaller = Object.entries(perCaller).map(([name, value]) => [`perCaller.${name}`, value] as const)
  for (const [name, value] of [...Object.entries(own), ...inCaller]) {
    if (Number.isSafeInteger(value) && value > 0) continue
    throw new SdsServerError(
      'invalid-config',
      `Cannot use limits.${name} ${value} on ${path}: give a whole number above 0`,
    )
  }
  return limits
}

/** The defaults of the options, and the bound of a path: a separate subpath, so that a program can show them without loading gRPC. */
export { DEFAULT_LIMITS } from './budget/socket-limits.ts'
export { DEFAULT_NAMES } from './protocol/resource-name.ts'
export { DEFAULT_MODE } from './socket/placed-socket.ts'

/** Whether the SPIFFE Workload API is served: on the socket of one identity, and on others. */
export const DEFAULT_WORKLOAD_API = { own: true, shared: false } as const

export const DEFAULT_OPTIONS = {
  drainMs: 5_000,
  takeover: false,
  refusedNames: 'omit',
  nacksPerMinute: 60,
  requestTimeoutMs: 10_000,
  fetchWaitMs: 5_000,
  connectionIdleMs: 300_000,
  keepaliveMs: 30_000,
  keepaliveTimeoutMs: 10_000,
} as const

/** The defaults of the options: a subpath of its own, so that a program can show them without loading gRPC. */
export { DEFAULT_LIMITS } from './budget/socket-limits.ts'
export { DEFAULT_NAMES } from './protocol/resource-name.ts'
export { DEFAULT_MODE } from './socket/placed-socket.ts'

export const DEFAULT_DRAIN_MS = 5_000

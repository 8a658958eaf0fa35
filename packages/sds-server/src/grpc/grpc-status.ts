/** Maps our refusals to gRPC statuses: https://github.com/grpc/grpc/blob/master/doc/statuscodes.md */
import { type RefusalCode, StreamRefusal } from '../protocol/stream-refusal.ts'

const CODES: Record<RefusalCode, number> = {
  'invalid-argument': 3,
  'deadline-exceeded': 4,
  'not-found': 5,
  'permission-denied': 7,
  'resource-exhausted': 8,
  unimplemented: 12,
  unavailable: 14,
}
const INTERNAL = 13

export const OK = { code: 0, details: 'OK' } as const
export const UNAVAILABLE = CODES.unavailable

/** An error with its status. */
interface StatusError extends Error {
  readonly code: number
  readonly details: string
}

export function toStatusError(error: unknown): StatusError {
  const refusal = error instanceof StreamRefusal ? error : undefined
  const code = refusal ? CODES[refusal.code] : INTERNAL
  // An unexpected error's own text could hold anything, so it stays here.
  const details = refusal?.message ?? 'internal error: see the log of the agent'
  return Object.assign(new Error(details), { code, details })
}

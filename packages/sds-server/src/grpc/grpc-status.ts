/** How a refusal of ours becomes a gRPC status. */
import { status } from '@grpc/grpc-js'
import { type RefusalCode, StreamRefusal } from '../protocol/stream-refusal.ts'

const CODES: Record<RefusalCode, number> = {
  'invalid-argument': status.INVALID_ARGUMENT,
  'permission-denied': status.PERMISSION_DENIED,
  'resource-exhausted': status.RESOURCE_EXHAUSTED,
  'deadline-exceeded': status.DEADLINE_EXCEEDED,
  unimplemented: status.UNIMPLEMENTED,
  unavailable: status.UNAVAILABLE,
}

/** An error in the form in which grpc-js takes a status. */
export interface StatusError extends Error {
  readonly code: number
  readonly details: string
}

export function toStatusError(error: unknown): StatusError {
  const refusal = error instanceof StreamRefusal ? error : undefined
  const code = refusal ? CODES[refusal.code] : status.INTERNAL
  // An unexpected error's own text could hold anything, so it stays here.
  const details = refusal?.message ?? 'internal error: see the log of the agent'
  return Object.assign(new Error(details), { code, details })
}

/** The wait before a failed call is made again: the same for every reader of objects at the API server. */
import { backoff } from '@livery/core/plugin'

const RETRY = { minMs: 10_000, maxMs: 120_000 } as const
/** The longest wait that the API server can impose on this agent. */
const MAX_WAIT_MS = 600_000

/** The wait after `failures` failures in a row, milliseconds: at least as long as the API server asks for. */
export function apiRetryMs(failures: number, error: unknown): number {
  const { retryAfterMs } = Object(error)
  const wishedMs = typeof retryAfterMs === 'number' ? Math.min(retryAfterMs, MAX_WAIT_MS) : 0
  return Math.max(backoff(failures, RETRY, Math.random()), wishedMs)
}

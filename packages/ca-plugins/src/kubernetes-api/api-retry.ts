/** When a call that failed is made again: everybody who reads one object at the API server waits alike. */
import { backoff } from '@livery/core/plugin'

const RETRY = { minMs: 10_000, maxMs: 120_000 } as const
/** The longest that the API server can have this agent wait. */
const MAX_WAIT_MS = 600_000

/** The wait after `failures` failures in a row, milliseconds: as long as the API server asks for, if that is longer. */
export function apiRetryMs(failures: number, error: unknown): number {
  const { retryAfterMs } = Object(error)
  const wishedMs = typeof retryAfterMs === 'number' ? Math.min(retryAfterMs, MAX_WAIT_MS) : 0
  return Math.max(backoff(failures, RETRY, Math.random()), wishedMs)
}

/** How long to wait between two attempts: pure arithmetic, with chance as an argument. */

export interface RetryPolicy {
  /** Wait after the first failure, milliseconds. */
  readonly minMs: number
  /** Longest wait, milliseconds. */
  readonly maxMs: number
}

/** Beyond this the wait has long reached its maximum, and the power would overflow. */
const MAX_DOUBLINGS = 30

/**
 * The wait after `failures` failures in a row: it doubles from `minMs` to `maxMs`. `random`, in [0, 1), moves it by up to
 * 20 % either way, as ztunnel's manager does; without it the wait is exact.
 */
export function backoff(failures: number, { minMs, maxMs }: RetryPolicy, random = 0.5): number {
  const doublings = Math.min(Math.max(failures - 1, 0), MAX_DOUBLINGS)
  return Math.min(minMs * 2 ** doublings, maxMs) * (0.8 + 0.4 * random)
}

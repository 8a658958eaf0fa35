/** How long to wait between two attempts: pure arithmetic, with chance as an argument. */

export interface RetryPolicy {
  /** Wait after the first failure, milliseconds. */
  readonly minMs: number
  /** Longest wait, milliseconds. */
  readonly maxMs: number
}

/** Wait before try number `failures` + 1: doubling from `minMs` to `maxMs`, each ±20 % (as ztunnel's manager does). */
export function retryDelay(failures: number, policy: RetryPolicy, random: number): number {
  const base = Math.min(policy.minMs * 2 ** Math.min(failures - 1, 30), policy.maxMs)
  return base * (0.8 + 0.4 * random)
}

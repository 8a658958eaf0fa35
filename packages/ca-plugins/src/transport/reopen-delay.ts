/** The wait before a stream that ended is opened again. */
import { backoff } from '@livery/core/plugin'

export const FIRST_DELAY_MS = 1_000
export const LAST_DELAY_MS = 30_000

/**
 * Milliseconds after a stream's end, the last of `ends` earlier ones in a row: about 1, 2, 4 … 30 s. `random`, in
 * [0, 1), spreads the nodes whose streams a server ended all at once.
 */
export function reopenDelay(ends: number, random: number): number {
  return backoff(ends + 1, { minMs: FIRST_DELAY_MS, maxMs: LAST_DELAY_MS }) * (0.5 + random)
}

/** When a server that could not be reached is dialled again: pure arithmetic, with time and chance as arguments. */
import { backoff } from '@livery/core'

/** While certificates of a node run out, nobody should wait for a connection that could be made. */
const SHORT = { minMs: 50, maxMs: 200 }
/** A longer outage is noticed to end after this share of it at most: a thousand nodes dial a CA that is down for long. */
const SHARE_OF_OUTAGE = 1 / 500
const LONGEST_MS = 1_000

/**
 * Milliseconds after the last of `failures` failures in a row, the first of which was `outageMs` ago: about 50, 100, 200 ms,
 * and up to a second in an outage of minutes. `random`, in [0, 1), moves it by up to 20 %: nodes that lost a CA together
 * must not dial it together.
 */
export function redialDelay(failures: number, outageMs: number, random: number): number {
  const delay = Math.max(backoff(failures, SHORT), Math.min(outageMs * SHARE_OF_OUTAGE, LONGEST_MS))
  return delay * (0.8 + 0.4 * random)
}

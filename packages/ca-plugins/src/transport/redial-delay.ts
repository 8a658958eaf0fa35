/** The wait before an unreachable server is dialled again: pure arithmetic, with time and chance as arguments. */
import { backoff } from '@livery/core/plugin'

/** Calls should not wait long for a server that is back while a node's certificates run out. */
const SHORT = { minMs: 50, maxMs: 200 }
/** A restart takes a second or two: dials are twice as frequent until then. */
const RESTART_MS = 3_000
/** The wait is at most this share of a long outage: a thousand nodes may be dialling the CA. */
const SHARE_OF_OUTAGE = 1 / 500
const LONGEST_MS = 1_000

/**
 * Milliseconds after the last of `failures` failures in a row, which began `outageMs` ago: about 50, then 100 ms,
 * 200 ms after three seconds, and up to a second in an outage of minutes. `random`, in [0, 1), moves it by up to 20 %: nodes that lost a CA together
 * must not dial it together.
 */
export function redialDelay(failures: number, outageMs: number, random: number): number {
  const short = Math.min(backoff(failures, SHORT), outageMs < RESTART_MS ? SHORT.maxMs / 2 : SHORT.maxMs)
  const delay = Math.max(short, Math.min(outageMs * SHARE_OF_OUTAGE, LONGEST_MS))
  return delay * (0.8 + 0.4 * random)
}

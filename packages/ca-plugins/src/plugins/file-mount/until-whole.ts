/** Waits, within a bound, for files that somebody is writing at this moment. */
import { type Clock, FileFault, sleep } from '@livery/core/plugin'

const FIRST_PAUSE_MS = 50

/** Calls `read` until it resolves, after pauses that double. Rejects with a fault that cannot pass, or the last one. `waitMs`: the sum of the pauses. */
export async function untilWhole<T>(
  read: () => Promise<T>,
  clock: Clock,
  waitMs: number,
  signal: AbortSignal,
): Promise<T> {
  let left = waitMs
  for (let pauseMs = FIRST_PAUSE_MS; left > 0; pauseMs *= 2) {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof FileFault && error.mayPass)) throw error
    }
    await sleep(clock, Math.min(pauseMs, left), signal)
    left -= pauseMs
  }
  return await read()
}

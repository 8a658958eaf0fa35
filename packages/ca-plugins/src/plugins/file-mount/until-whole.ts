/** Waits, within a bound, for files that somebody is writing at this moment. */
import { type Clock, FileFault, sleep } from '@livery/core/plugin'

const FIRST_PAUSE_MS = 50

interface UntilWholeOptions {
  readonly clock: Clock
  /** The sum of the pauses between reads, milliseconds. */
  readonly waitMs: number
  readonly signal: AbortSignal
}

/** Calls `read` until it resolves, after pauses that double. Rejects with a fault that cannot pass, or the last one. */
export async function untilWhole<T>(read: () => Promise<T>, { clock, waitMs, signal }: UntilWholeOptions): Promise<T> {
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

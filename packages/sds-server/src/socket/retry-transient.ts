/** Retries failures that can end on their own: used-up limits and full disks, but not a missing permission. */
import { type Clock, sleep, systemErrorCode } from '@livery/core/plugin'

const TRIES = 5
const FIRST_DELAY_MS = 1_000
const TRANSIENT = new Set([
  'EADDRINUSE',
  'EAGAIN',
  'EDQUOT',
  'EINTR',
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'ENOSPC',
])

/**
 * Five tries, 1, 2, 4 and 8 s apart; rejects with the last error, at once with one that will not pass, or with the
 * reason of the signal.
 */
export async function retryTransient<Result>(
  clock: Clock,
  attempt: () => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  for (let tries = 1, delay = FIRST_DELAY_MS; ; tries++, delay *= 2) {
    try {
      return await attempt()
    } catch (error) {
      if (tries === TRIES || !isTransient(error)) throw error
    }
    await sleep(clock, delay, signal)
  }
}

function isTransient(error: unknown): boolean {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return TRANSIENT.has(systemErrorCode(cause) ?? '')
}

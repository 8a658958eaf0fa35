/** Handles promises whose callers have stopped waiting. */

/** Callbacks for work that was given up. */
interface Abandoned<T> {
  /** Called at once on abort: asks the work to stop early. */
  readonly stop?: () => void
  /** Called with a result that came after the abort. */
  readonly discard: (late: T) => void
}

/** Settles as `work` does, but rejects with the signal's reason as soon as it is aborted. */
export function unlessAborted<T>(
  signal: AbortSignal | undefined,
  work: Promise<T>,
  { stop, discard }: Abandoned<T>,
): Promise<T> {
  if (!signal) return work
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(signal.reason)
      stop?.()
    }
    const finish = () => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort, { once: true })
    work.then(
      value => {
        finish()
        if (signal.aborted) discard(value)
        else resolve(value)
      },
      error => {
        finish()
        reject(error)
      },
    )
  })
}

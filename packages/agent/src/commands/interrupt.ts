/** SIGINT (Ctrl-C) as an AbortSignal, for a command that runs until it. */

/** Runs `run` with a signal that SIGINT aborts. */
export async function untilInterrupted<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const onInterrupt = (): void => controller.abort(new Error('interrupted'))
  process.once('SIGINT', onInterrupt)
  try {
    return await run(controller.signal)
  } finally {
    process.off('SIGINT', onInterrupt)
  }
}

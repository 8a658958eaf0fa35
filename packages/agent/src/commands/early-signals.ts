/** Handles signals to `livery run` before the agent listens to them and after it stops listening. */
import { EXIT } from './exit-code.ts'

/**
 * Ends as a success: nothing was started yet that has to be closed. Each signal's default would end the process as a
 * failure.
 */
export function holdSignals(): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      const isAlone = process.listenerCount(signal) === 1
      if (isAlone) process.exit(EXIT.ok)
    })
  for (const signal of ['SIGHUP', 'SIGUSR2'] as const) process.on(signal, () => {})
}

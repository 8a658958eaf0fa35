/** Handles signals to `livery run` before the agent listens to them and after it stops listening. */
import { EXIT } from './exit-code.ts'

/**
 * A stop ends as a success, since nothing is open yet, and a reload is moot: the configuration is still to be read. The
 * signals' defaults would end the process as a failure.
 */
export function holdSignals(): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      const isAlone = process.listenerCount(signal) === 1
      if (isAlone) process.exit(EXIT.ok)
    })
  for (const signal of ['SIGHUP', 'SIGUSR2'] as const) process.on(signal, () => {})
}

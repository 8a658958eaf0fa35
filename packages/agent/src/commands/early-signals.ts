/** What signals do to `livery run` before the agent listens to them, and once it no longer does: what its user expects of it. */
import { EXIT } from './exit-code.ts'

/**
 * Nothing was started yet that a stop would have to close, and the configuration is still to be read. By default each of the
 * signals would end the process, and not as a success.
 */
export function holdSignals(): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      const isAlone = process.listenerCount(signal) === 1
      if (isAlone) process.exit(EXIT.ok)
    })
  for (const signal of ['SIGHUP', 'SIGUSR2'] as const) process.on(signal, () => {})
}

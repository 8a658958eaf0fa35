/** How a command that serves ends: by a signal, or by an uncaught error. */

import type { Logger } from '../observe/logger.ts'
import { EXIT } from './exit-code.ts'

/** How long the parts may take to close after a fault. */
const FAULT_CLOSE_MS = 2_000

/** Why serving ended. */
export type Ending = { readonly kind: 'signal'; readonly signal: NodeJS.Signals } | { readonly kind: 'fault' }

/**
 * Runs `start`, waits for SIGTERM, SIGINT or a fault, closes what was started and resolves with the exit code. A second
 * signal ends the process at once, whatever is open.
 */
export async function serveUntilSignal(
  logger: Logger,
  start: (signal: AbortSignal) => Promise<AsyncDisposable>,
): Promise<number> {
  const givenUp = new AbortController()
  const ended = Promise.withResolvers<Ending>()
  let signals = 0
  const onSignal = (signal: NodeJS.Signals): void => {
    if (++signals > 1) process.exit(EXIT.failed)
    givenUp.abort(new Error(`${signal} came while starting`))
    ended.resolve({ kind: 'signal', signal })
  }
  const onFault = (error: unknown): void => {
    logger.fatal({ err: error }, 'uncaught error: shutting down')
    ended.resolve({ kind: 'fault' })
  }
  // Without a listener it would end the process, without a word.
  const onUnused = () =>
    logger.warn('SIGUSR2 does nothing: SIGHUP reloads the configuration, SIGTERM stops the process')
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal).on('SIGUSR2', onUnused)
  process.on('uncaughtException', onFault).on('unhandledRejection', onFault)
  try {
    const started = start(givenUp.signal)
    const ending = await Promise.race([ended.promise, started.then(() => ended.promise)])
    return await close(ending, started, logger)
  } finally {
    process.off('SIGTERM', onSignal).off('SIGINT', onSignal).off('SIGUSR2', onUnused)
    process.off('uncaughtException', onFault).off('unhandledRejection', onFault)
  }
}

async function close(ending: Ending, started: Promise<AsyncDisposable>, logger: Logger): Promise<number> {
  const closed = started.then(parts => parts[Symbol.asyncDispose]())
  if (ending.kind === 'fault') {
    await Promise.race([closed, timeout(FAULT_CLOSE_MS)])
    return EXIT.failed
  }
  logger.info({ signal: ending.signal }, `${ending.signal}: draining; a second one exits at once`)
  await closed
  logger.info('stopped')
  return EXIT.ok
}

/** Not by the agent's clock: that may be what has failed. */
function timeout(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms).unref())
}

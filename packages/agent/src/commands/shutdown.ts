/** How a command that serves ends: by a signal, by an uncaught error, or because another process serves in its place. */

import type { Succession } from '../life/life.ts'
import type { Logger } from '../observe/logger.ts'
import { EXIT } from './exit-code.ts'

/** How long the parts may take to close after a fault. */
const FAULT_CLOSE_MS = 2_000
/** How long an aborted start may take to end: a plugin that is being created does not notice the abort. */
const START_END_MS = 2_000

/** Why serving ended. */
type Ending =
  | { readonly kind: 'signal'; readonly signal: NodeJS.Signals }
  | { readonly kind: 'fault' }
  | { readonly kind: Succession }

/** Parts that serve. They may end because another process serves in their place. */
interface Served extends AsyncDisposable {
  readonly succession?: Promise<Succession>
}

/**
 * Runs `start`, waits for SIGTERM, SIGINT, a successor or a fault, closes what was started and resolves with the exit code.
 * A second signal ends the process at once, whatever is open. A signal during the start also ends it as a success.
 */
export async function serveUntilSignal(
  logger: Logger,
  start: (signal: AbortSignal) => Promise<Served>,
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
  // SIGUSR2 without a listener would silently end the process.
  const onUnused = () =>
    logger.warn('SIGUSR2 does nothing: SIGHUP reloads the configuration, SIGTERM stops the process')
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal).on('SIGUSR2', onUnused)
  process.on('uncaughtException', onFault).on('unhandledRejection', onFault)
  try {
    const started = start(givenUp.signal)
    const succeeded = started.then(({ succession }) => succession?.then(kind => ({ kind })) ?? ended.promise)
    const ending = await Promise.race([ended.promise, succeeded])
    return await close(ending, started, logger)
  } finally {
    process.off('SIGTERM', onSignal).off('SIGINT', onSignal).off('SIGUSR2', onUnused)
    process.off('uncaughtException', onFault).off('unhandledRejection', onFault)
  }
}

async function close(ending: Ending, started: Promise<Served>, logger: Logger): Promise<number> {
  if (ending.kind === 'signal') {
    logger.info({ signal: ending.signal }, `${ending.signal}: draining; a second one exits at once`)
    // An aborted start rejects only because of the abort.
    const parts = await Promise.race([started.catch(() => undefined), timeout(START_END_MS)])
    await parts?.[Symbol.asyncDispose]()
    logger.info('stopped')
    return EXIT.ok
  }
  const closed = started.then(parts => parts[Symbol.asyncDispose]())
  // A restart gives the node an agent.
  if (ending.kind === 'successor-gone') logger.error('the agent that took over has ended: this one ends as failed')
  if (ending.kind === 'fault' || ending.kind === 'successor-gone') {
    await Promise.race([closed, timeout(FAULT_CLOSE_MS)])
    return EXIT.failed
  }
  await closed
  logger.info('stopped')
  return EXIT.ok
}

/** Uses the real clock: the agent's clock may be what has failed. */
function timeout(ms: number): Promise<undefined> {
  return new Promise(resolve => setTimeout(resolve, ms, undefined).unref())
}

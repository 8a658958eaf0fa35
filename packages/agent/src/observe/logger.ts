/** Structured logs that never hold up the event loop: what a stuck reader does not take is dropped and counted. */
import { constants, fstatSync, openSync } from 'node:fs'
import { type Logger as PinoLogger, pino } from 'pino'
import type { LogLevel } from '../config/schema.ts'

export type Logger = PinoLogger

export interface LogSink extends Disposable {
  readonly logger: Logger
  /** Lines that no reader took. */
  dropped(): number
}

/** Names whose values never go into a line, wherever they stand. */
const REDACTED = ['privateKey', 'privateKeyPem', 'token', 'authorization', 'headers'].flatMap(name => [
  name,
  `*.${name}`,
])

/** How much waits for a slow reader before lines are dropped. */
const MAX_WAITING_BYTES = 1024 * 1024
/** Tries of 100 ms each to hand over the last lines to a full pipe before the process ends without them. */
const LAST_TRIES = 5

/** Logs to standard error: results of commands have standard output for themselves. */
export async function createLogger(options: {
  readonly level: LogLevel
  readonly format: 'json' | 'pretty'
}): Promise<LogSink> {
  const settings = {
    level: options.level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: REDACTED, censor: '[redacted]' },
  }
  if (options.format === 'pretty') {
    // Loaded for people only: on a node it would make the start longer for nothing.
    const { default: pretty } = await import('pino-pretty')
    const stream = pretty({
      destination: 2,
      sync: true,
      translateTime: 'SYS:HH:MM:ss.l',
      hideObject: true,
      messageFormat: sentence,
    })
    return { logger: pino(settings, stream), dropped: () => 0, [Symbol.dispose]: () => stream.end() }
  }
  return jsonSink(settings)
}

/** For people the sentence is enough, with the resource or plugin before it and an error's stack after it. */
function sentence({ plugin, resource = plugin, msg, err }: Record<string, unknown>): string {
  const stack = typeof err === 'object' && err !== null && 'stack' in err ? `\n${err.stack}` : ''
  return `${resource === undefined ? '' : `${resource}: `}${msg}${stack}`
}

function jsonSink(settings: pino.LoggerOptions): LogSink {
  let dropped = 0
  let lastTries: number | undefined
  let isBroken = false
  const destination = pino.destination({
    fd: standardError(),
    sync: false,
    maxLength: MAX_WAITING_BYTES,
    retryEAGAIN: () => lastTries === undefined || lastTries-- > 0,
  })
  destination.on('drop', () => dropped++)
  // A full disk is no reason to end the agent.
  destination.on('error', () => {
    isBroken = true
    dropped++
  })
  destination.on('write', () => {
    isBroken = false
  })
  const finish = (): void => {
    process.off('exit', finish)
    lastTries = LAST_TRIES
    try {
      if (!isBroken) destination.flushSync()
    } catch {
      // Nobody reads any more: what is left cannot be told to anyone.
    }
    destination.destroy()
  }
  // Before pino's own listener, which would wait for a stuck reader for ever.
  process.prependListener('exit', finish)
  return { logger: pino(settings, destination), dropped: () => dropped, [Symbol.dispose]: finish }
}

/**
 * Standard error; a pipe is opened anew without blocking: a write to a full one would otherwise hold a thread of the
 * pool, and the process at its end. A file is not, since others may write on from its position; a socket cannot be.
 */
function standardError(): number {
  try {
    if (!fstatSync(2).isFIFO()) return 2
    return openSync('/proc/self/fd/2', constants.O_WRONLY | constants.O_NONBLOCK)
  } catch {
    return 2
  }
}

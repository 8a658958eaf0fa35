/** Structured logs that never block the event loop: lines that a stuck reader does not take are dropped and counted. */
import { once } from 'node:events'
import { constants, fstatSync, openSync } from 'node:fs'
import { scrub } from '@livery/core/plugin'
import { type Logger as PinoLogger, pino } from 'pino'
import sonicBoom from 'sonic-boom'
import { everyScope, type LogLevel, type LogLevels } from '../schema/log-level.ts'
import { rowOf } from './event-table.ts'
import { LogScopes } from './log-scopes.ts'

export type Logger = PinoLogger

/** Disposal waits at most half a second for a slow reader to take the last lines; later lines are ignored. */
export interface LogSink extends AsyncDisposable {
  /** The logger of the process, in the scope `agent`. */
  readonly logger: Logger
  /** One logger per module. */
  readonly scopes: LogScopes
  /** Lines that were dropped, since the reader did not take them in time. */
  dropped(): number
}

/** Names whose values never appear in a line, at any depth. */
const REDACTED = ['privateKey', 'privateKeyPem', 'token', 'authorization', 'headers'].flatMap(name => [
  name,
  `*.${name}`,
])

/** Bytes that wait for a slow reader before lines are dropped. */
const MAX_WAITING_BYTES = 1024 * 1024
/** How long the last lines may take before the process ends without them. */
const LAST_LINES_MS = 500

/** Logs to standard error: standard output is for results of commands. A single level applies to every scope. */
export async function createLogger(options: {
  readonly level: LogLevel | LogLevels
  readonly format: 'json' | 'pretty'
}): Promise<LogSink> {
  const { level } = options
  const levels = typeof level === 'string' ? everyScope(level) : level
  const settings = {
    level: levels.agent,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: REDACTED, censor: '[redacted]' },
    serializers: { err: shownError },
  }
  return openSink(settings, levels, options.format === 'pretty' ? await lineForPeople() : line => line)
}

async function lineForPeople(): Promise<(line: string) => string> {
  // Loaded for people only: a node would start later for nothing.
  const { prettyFormat } = await import('./pretty-format.ts')
  return prettyFormat()
}

/** A plugin may have made the error. The lines of its stack that are not frames are its message, which may imitate our lines. */
function shownError(error: unknown): object {
  const frames = stackOf(error).filter(line => /^ {4}at /.test(line))
  const message = scrub(error)
  const shown = frames.slice(0, MAX_FRAMES).map(frame => `    ${scrub(frame)}`)
  return { message, stack: [`Error: ${message}`, ...shown].join('\n') }
}

function stackOf(error: unknown): string[] {
  try {
    return error instanceof Error ? String(error.stack).slice(0, MAX_STACK).split('\n') : []
  } catch {
    return []
  }
}

const MAX_FRAMES = 20
const MAX_STACK = 16_384

/** JSON does not escape these: they move a terminal's cursor, end a line for some readers, or change text direction. */
const UNPRINTABLE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]|\p{Cs}/gu

function printable(line: string): string {
  return line.replace(UNPRINTABLE, character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function openSink(settings: pino.LoggerOptions, levels: LogLevels, format: (line: string) => string): LogSink {
  let dropped = 0
  let reported = 0
  let isClosed = false
  const destination = new sonicBoom.SonicBoom({ fd: standardError(), sync: false, maxLength: MAX_WAITING_BYTES })
  // A wrapper, since pino would flush the destination after a fatal line, which never returns once its reader has left.
  const logger = pino(settings, { write: line => void (isClosed || destination.write(printable(format(line)))) })
  destination.on('drop', () => dropped++)
  destination.on('drain', () => {
    if (dropped === reported) return
    const event = { kind: 'log-lines-dropped', lines: dropped - reported } as const
    reported = dropped
    const row = rowOf(event)
    logger[row.level(event)]({ event: event.kind, ...row.fields(event) }, row.sentence(event))
  })
  // The lines stay, up to the bound, and are tried again with the next one: a full disk or a missing reader ends nothing.
  destination.on('error', () => {})
  const end = async (): Promise<void> => {
    // Set first: a write to an ended destination throws, in no handler.
    isClosed = true
    await handOver(destination)
    destination.destroy()
  }
  let ending: Promise<void> | undefined
  return {
    logger,
    scopes: new LogScopes(logger, levels),
    dropped: () => dropped,
    [Symbol.asyncDispose]() {
      ending ??= end()
      return ending
    },
  }
}

/** Resolves when the last lines are written, cannot be written, or took too long. */
async function handOver(destination: sonicBoom.SonicBoom): Promise<void> {
  const deadline = new AbortController()
  // Keeps the process alive, unlike a timeout signal: a destination that waits to retry does not always.
  const timer = setTimeout(() => deadline.abort(), LAST_LINES_MS)
  try {
    // Rejects at 'error'.
    const finished = once(destination, 'finish', { signal: deadline.signal })
    destination.end()
    await finished
  } catch {
    // The reader takes nothing more.
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Standard error in non-blocking mode: a blocked write holds a thread of the pool, and keeps the process from ending. A pipe
 * or terminal is reopened, since the flag would otherwise affect everyone who shares it. A socket cannot be reopened, so
 * Node sets the flag on it. A regular file is left as it is: others may continue to write at its position.
 */
function standardError(): number {
  const status = fstatSync(2)
  if (status.isFile()) return 2
  try {
    return openSync('/proc/self/fd/2', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  } catch {
    process.stderr.on('error', () => {})
    return 2
  }
}

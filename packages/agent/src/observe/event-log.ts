/** Writes what happens to secrets and sockets to the log: one line for each change of state. */
import type { Clock } from '@livery/core'
import type { SdsEvent, SocketFileEvent, StreamInfo } from '@livery/sds-server'
import type { LedgerEntry, LedgerEvent } from './ledger.ts'
import { describeEvent } from './ledger-text.ts'
import { ADMIN_LEVELS, type AdminEvent, isSecurityEvent, type PodEvent, scopeOf } from './log-events.ts'
import { type Level, LogRate } from './log-rate.ts'
import type { LogScopes } from './log-scopes.ts'
import type { Logger } from './logger.ts'

const LEVELS: Readonly<Record<LedgerEvent['kind'], Level>> = {
  asked: 'debug',
  refused: 'warn',
  'csr-sent': 'debug',
  'ca-error': 'warn',
  'retry-planned': 'debug',
  'clock-jumped': 'warn',
  'ca-down': 'warn',
  'ca-back': 'info',
  'shared-failure': 'warn',
  'shared-failure-over': 'info',
  'ttl-lowered': 'warn',
  held: 'info',
  issued: 'info',
  restored: 'info',
  'not-restored': 'warn',
  'not-stored': 'warn',
  'roots-changed': 'info',
  'root-phase': 'info',
  'preflight-failed': 'warn',
  revoked: 'warn',
  'crl-changed': 'info',
  'crl-unavailable': 'warn',
  'roots-rejected': 'warn',
  'roots-unavailable': 'warn',
  removed: 'info',
  kept: 'info',
  'no-room': 'warn',
  'read-from-files': 'info',
  'files-unusable': 'warn',
  ending: 'warn',
  withdrawn: 'warn',
  pushed: 'debug',
  acked: 'debug',
  nacked: 'warn',
}

/** Logs ledger entries and events of the SDS server: 50 lines of a kind and level in 10 s, then how many more there were. */
export class EventLog implements Disposable {
  readonly #scopes: LogScopes
  readonly #flood: LogRate
  /** The code of the error that a name is failing with. */
  readonly #failing = new Map<string, string>()

  constructor(scopes: LogScopes, clock: Clock) {
    this.#scopes = scopes
    this.#flood = new LogRate(clock, (kind, suppressed, level) => this.#summarize(kind, suppressed, level))
  }

  [Symbol.dispose](): void {
    this.#flood[Symbol.dispose]()
  }

  ledger(name: string, { event }: LedgerEntry): void {
    const level = this.#level(name, event)
    const logger = this.#logger(event.kind, 'code' in event ? event.code : undefined)
    if (!logger.isLevelEnabled(level)) return
    const { kind, ...fields } = event
    this.#write(logger, { level, fields: { resource: name, ...readable(fields) }, message: describeEvent(event) }, kind)
  }

  sds(event: SdsEvent): void {
    const isDebugged = this.#scopes.of('sds').isLevelEnabled('debug')
    const line = describeSdsEvent(event) ?? (isDebugged ? describeTraffic(event) : undefined)
    if (!line) return
    const { kind = event.kind } = line
    const logger = this.#logger(kind)
    if (logger.isLevelEnabled(line.level)) this.#write(logger, line, kind)
  }

  /** An event of the admin endpoint or of its socket: written at every log level. */
  admin(event: AdminEvent | SocketFileEvent['kind'], fields: object, message: string): void {
    const levels: Readonly<Partial<Record<string, Level>>> = ADMIN_LEVELS
    this.#write(this.#scopes.securityOf('admin'), { level: levels[event] ?? 'warn', fields, message }, event)
  }

  /** An event of the pods of this node. */
  note(level: Level, event: PodEvent, fields: object, message: string): void {
    const logger = this.#logger(event)
    if (logger.isLevelEnabled(level)) this.#write(logger, { level, fields, message }, event)
  }

  #logger(kind: string, code?: string): Logger {
    const scope = scopeOf(kind)
    return isSecurityEvent(kind, code) ? this.#scopes.securityOf(scope) : this.#scopes.of(scope)
  }

  #summarize(kind: string, suppressed: number, level: Level): void {
    this.#logger(kind)[level]({ event: kind, suppressed }, `${suppressed} more lines of the event ${kind} in 10 s`)
  }

  /** At every level: who wants to see more gets more kinds of lines, and not a flood of each. */
  #write(logger: Logger, { level, fields, message }: Line, kind: string): void {
    if (this.#flood.allow(kind, level)) logger[level]({ event: kind, ...fields }, message)
  }

  /** A CA error is a warning when it begins or changes; while it lasts, its repetitions are `debug`. */
  #level(name: string, event: LedgerEvent): Level {
    switch (event.kind) {
      case 'ca-error': {
        const repeated = this.#failing.get(name) === event.code
        this.#failing.set(name, event.code)
        // Each answer may have another fault.
        return repeated && event.code !== 'bad-response' ? 'debug' : 'warn'
      }
      case 'crl-changed':
        return event.uncovered.length > 0 ? 'warn' : 'info'
      case 'issued':
        this.#failing.delete(name)
        return 'info'
      case 'withdrawn':
        this.#failing.delete(name)
        return event.reason === 'expired' ? 'warn' : 'info'
      default:
        return LEVELS[event.kind]
    }
  }
}

interface Line {
  /** Default: the kind of the event. */
  readonly kind?: LedgerEvent['kind']
  readonly level: Level
  readonly fields: object
  readonly message: string
}

/** The line of an event that is worth one at every level. */
function describeSdsEvent(event: SdsEvent): Line | undefined {
  switch (event.kind) {
    case 'connection-refused': {
      const { socket, caller, subject } = event.connection
      const { reason, detail } = event
      const fields = { socket, ...caller, subject, reason, detail }
      return { level: 'warn', fields, message: REFUSED[reason] }
    }
    case 'stream-refused': {
      const { socket, caller } = event.connection
      const fields = { socket, ...caller, method: event.method, bound: event.bound }
      return { level: 'warn', fields, message: `stream refused: the limit of the ${event.bound} is reached` }
    }
    case 'stream-report': {
      if (event.report.kind !== 'refused-unnamed') return undefined
      const { socket, caller } = event.stream.connection
      const message = 'a name was refused: this caller has more refused names than are listed individually'
      return { kind: 'refused', level: 'warn', fields: { socket, ...caller }, message }
    }
    case 'caller-slowed': {
      const { socket, caller, streams } = event
      const message = 'requests wait: the caller sends more than limits.perCaller.requestsPerSecond of the socket'
      return { level: 'warn', fields: { socket, caller, streams }, message }
    }
    case 'stream-failed':
      return {
        level: 'error',
        fields: { stream: event.stream.id, err: event.error },
        message: 'a stream failed: a bug',
      }
    case 'few-descriptors':
      return { level: 'warn', fields: { available: event.available, wanted: event.wanted }, message: event.message }
    case 'accept-failed':
      return { level: 'warn', fields: { path: event.path, err: event.error }, message: 'a connection was not accepted' }
    case 'socket-recreated':
      return {
        level: 'warn',
        fields: { path: event.path },
        message: 'the socket file had vanished, or a successor that failed had replaced it, and was made again',
      }
    case 'socket-superseded':
      return { level: 'warn', fields: { path: event.path }, message: 'another process has taken over this socket path' }
    case 'socket-reclaimed': {
      const message = `another user${event.from} had put a socket in the place of this one, which has replaced it: requests that were sent meanwhile went to that user`
      return { level: 'error', fields: { path: event.path }, message }
    }
    case 'socket-folder-unsafe':
      return {
        level: 'error',
        fields: { path: event.path, err: event.error },
        message: 'others can replace this socket',
      }
    case 'socket-waiting': {
      const { path, error, isHandover } = event
      const fields = { path }
      if (isHandover)
        return { level: 'info', fields, message: 'this socket is new, and the agent that takes over serves it already' }
      const message = `another process listens on this socket; the others are served, and this one is tried again every 5 s: ${error.message}`
      return { level: 'error', fields, message }
    }
    case 'socket-acquired':
      return {
        level: 'info',
        fields: { path: event.path },
        message: 'the socket is served: the other process has left it',
      }
    case 'socket-unreachable':
      return { level: 'warn', fields: { path: event.path }, message: `the socket cannot be reached: ${event.reason}` }
    case 'socket-lost': {
      const fields = { path: event.path, err: event.error }
      return { level: 'error', fields, message: 'the socket file has vanished and cannot be made again' }
    }
    default:
      return undefined
  }
}

/** The line of an event that peers cause all the time. Messages of a stream are counted, or in the ledger. */
function describeTraffic(event: SdsEvent): Line | undefined {
  switch (event.kind) {
    case 'connection-opened':
    case 'connection-closed': {
      const { id, socket, caller, subject } = event.connection
      const message = event.kind === 'connection-opened' ? 'a connection was opened' : 'a connection was closed'
      return { level: 'debug', fields: { connection: id, socket, ...caller, subject }, message }
    }
    case 'stream-opened':
      return { level: 'debug', fields: describeStream(event.stream), message: 'a stream was opened' }
    case 'stream-closed': {
      const { status, details, stream } = event
      const fields = { ...describeStream(stream), openedAt: new Date(stream.openedAt).toISOString(), status, details }
      return { level: 'debug', fields, message: 'a stream was closed' }
    }
    default:
      return undefined
  }
}

function describeStream({ id, method, connection, node, names }: StreamInfo): object {
  return { stream: id, method, connection: connection.id, socket: connection.socket, node, names }
}

const REFUSED = {
  'not-allowed': 'connection refused: no rule under callers lets this caller in',
  'too-many-connections': 'connection refused: the caller holds its share of limits.connections of the socket',
  'too-many-of-caller': 'connection refused: the caller has reached limits.perCaller of the socket',
  'too-many-in-process': 'connection refused: the process has no room left, and the caller holds its share of it',
  'caller-held': 'connection refused: the caller exceeded a rate of the socket, and is refused for some seconds',
  'unreadable-credentials': 'connection refused: its credentials cannot be read',
  unidentified: 'connection refused: it cannot be known who called',
  'unknown-caller': 'connection refused: nothing is known of this caller, and it waited 5 s for that to change',
} as const

const TIMES: ReadonlySet<string> = new Set(['at', 'until', 'notAfter', 'renewAt', 'downSince', 'since', 'nextUpdate'])
/** Parts of the sentence. */
const IN_MESSAGE: ReadonlySet<string> = new Set(['message', 'detail'])

/** The fields that tools filter by; times as ISO 8601, as everywhere in the log. */
function readable(fields: object): object {
  const entries = Object.entries(fields).filter(([key]) => !IN_MESSAGE.has(key))
  return Object.fromEntries(
    entries.map(([key, value]) => [
      key,
      TIMES.has(key) && typeof value === 'number' ? new Date(value).toISOString() : value,
    ]),
  )
}

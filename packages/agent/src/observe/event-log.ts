/** Writes events to the log: one line for each change of state. */
import type { Clock } from '@livery/core/plugin'
import type { AgentEvent, EventKind } from './agent-event.ts'
import { rowOf } from './event-table.ts'
import { type Level, LogRate } from './log-rate.ts'
import type { LogScopes } from './log-scopes.ts'

/** Logs at most 50 lines of an event and level in 10 s, then the number of further ones. */
export class EventLog implements Disposable {
  readonly #scopes: LogScopes
  readonly #flood: LogRate<EventKind>
  /** The error code with which a name currently fails. */
  readonly #failing = new Map<string, string>()

  constructor(scopes: LogScopes, clock: Clock) {
    this.#scopes = scopes
    this.#flood = new LogRate(clock, (event, suppressed, level) => this.#summarize(event, suppressed, level))
  }

  [Symbol.dispose](): void {
    this.#flood[Symbol.dispose]()
  }

  /** `resource`: the subject of a ledger event. */
  write(event: AgentEvent, resource?: string): void {
    const row = rowOf(event)
    const level = this.#repeatsFailure(event, resource) ? 'debug' : row.level(event)
    const logger = row.isSecurity(event) ? this.#scopes.securityOf(row.scope) : this.#scopes.of(row.scope)
    const name = row.eventName(event)
    // A lower level shows more kinds of lines, but no flood of any kind.
    if (!logger.isLevelEnabled(level) || !this.#flood.allow(name, level)) return
    logger[level]({ event: name, resource, ...row.fields(event) }, row.sentence(event))
  }

  #summarize(event: EventKind, suppressed: number, level: Level): void {
    const { scope, security } = rowOf({ kind: event })
    const logger = security ? this.#scopes.securityOf(scope) : this.#scopes.of(scope)
    logger[level]({ event, suppressed }, `${suppressed} more lines of the event ${event} in 10 s`)
  }

  /** A CA error is a warning when it begins or changes; while it lasts, its repetitions are `debug`. */
  #repeatsFailure(event: AgentEvent, resource = ''): boolean {
    if (event.kind === 'issued' || event.kind === 'withdrawn') this.#failing.delete(resource)
    if (event.kind !== 'ca-error') return false
    const before = this.#failing.get(resource)
    this.#failing.set(resource, event.code)
    // Each bad answer may have another fault.
    return before === event.code && event.code !== 'bad-response'
  }
}

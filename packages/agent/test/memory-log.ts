/** A log whose lines a test reads. */
import { pino } from 'pino'
import { LogScopes } from '../src/observe/log-scopes.ts'
import { everyScope, type LogLevel } from '../src/schema/log-level.ts'

export type Line = Readonly<Record<string, unknown>>

/** Every scope has `level`; each line is added to `lines` as the agent would write it, without its time. */
export function memoryLog(level: LogLevel = 'info', lines: Line[] = []): LogScopes {
  const settings = { level, base: null, timestamp: false, formatters: { level: (label: string) => ({ level: label }) } }
  const logger = pino(settings, { write: (text: string) => void lines.push(JSON.parse(text)) })
  return new LogScopes(logger, everyScope(level))
}

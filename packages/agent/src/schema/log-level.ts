/** Log levels under pino's names, and the modules that have separate levels: `info,sds:debug,ca:trace`. */

import { Fault } from './fault.ts'
import { nearest } from './schema-parts.ts'

/** Ordered from the most to the least verbose. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export type LogLevel = (typeof LOG_LEVELS)[number]

/** The modules with separate levels. `agent` is the process itself: its start, its end, its surroundings. */
export const LOG_SCOPES = [
  'admin',
  'agent',
  'ca',
  'config',
  'files',
  'kubernetes',
  'output',
  'plugin',
  'scheduler',
  'sds',
  'store',
  'takeover',
  'trust',
] as const

export type LogScope = (typeof LOG_SCOPES)[number]

export type LogLevels = Readonly<Record<LogScope, LogLevel>>

/** The level of every scope that the configuration does not name. */
export const DEFAULT_LEVEL = 'info'

/** The same level for every scope. */
export function everyScope(level: LogLevel): LogLevels {
  return Object.fromEntries(LOG_SCOPES.map(scope => [scope, level])) as LogLevels
}

/**
 * The levels in a text: `debug` for every scope, `sds:debug` for one, `info,sds:debug,ca:trace` for every scope, with two
 * exceptions. A scope that it does not name is absent.
 */
export function parseLogLevels(text: string): Partial<LogLevels> | Fault {
  let base: LogLevel | undefined
  const own = new Map<LogScope, LogLevel>()
  for (const part of text.split(',').map(each => each.trim())) {
    const [, scopeName, levelName = ''] = /^(?:([^:]*):)?(.*)$/s.exec(part) ?? []
    const level = LOG_LEVELS.find(each => each === levelName)
    if (!level)
      return unknownName(text === levelName ? 'is' : `has the level ${quoted(levelName)},`, levelName, LOG_LEVELS)
    const scope = LOG_SCOPES.find(each => each === scopeName)
    if (scopeName !== undefined && !scope)
      return unknownName(`has the scope ${quoted(scopeName)},`, scopeName, LOG_SCOPES)
    if (scope ? own.has(scope) : base)
      return new Fault(`has ${scope ?? 'a level for every scope'} twice`, 'Leave one of the two out')
    if (scope) own.set(scope, level)
    else base = level
  }
  return { ...(base && everyScope(base)), ...Object.fromEntries(own) }
}

/** The form that {@link parseLogLevels} reads: the most common level, then the scopes with other ones. */
export function formatLogLevels(levels: LogLevels): string {
  const count = (level: LogLevel) => LOG_SCOPES.filter(scope => levels[scope] === level).length
  const [base = 'info'] = LOG_LEVELS.toSorted((a, b) => count(b) - count(a))
  const others = LOG_SCOPES.filter(scope => levels[scope] !== base)
  return [base, ...others.map(scope => `${scope}:${levels[scope]}`)].join(',')
}

function unknownName(has: string, name: string, known: readonly string[]): Fault {
  const near = nearest(name, known)
  return new Fault(`${has} none of ${known.join(', ')}`, near ? `Did you mean ${near}?` : 'Write one of these')
}

function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 100))
}

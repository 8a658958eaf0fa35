/** The logger of each module of the agent, whose level changes while the agent runs. */
import type { Logger } from 'pino'
import { LOG_SCOPES, type LogLevel, type LogLevels, type LogScope } from '../schema/log-level.ts'

export class LogScopes {
  readonly #loggers: Readonly<Record<LogScope, Logger>>
  readonly #security: Readonly<Record<LogScope, Logger>>

  /** `root`: the logger of the scope `agent`, at that scope's level. */
  constructor(root: Logger, levels: LogLevels) {
    this.#loggers = forEachScope(scope => (scope === 'agent' ? root : childAt(root, { scope }, levels[scope])))
    this.#security = forEachScope(scope => childAt(this.#loggers[scope], { channel: 'security' }, 'info'))
  }

  /** The same logger at each call: it follows its scope's level. */
  of(scope: LogScope): Logger {
    return this.#loggers[scope]
  }

  /** A logger that writes at every level of its scope. */
  securityOf(scope: LogScope): Logger {
    return this.#security[scope]
  }

  levels(): LogLevels {
    return forEachScope(scope => this.#loggers[scope].level as LogLevel)
  }

  /** Scopes that `levels` does not name stay as they are. */
  change(levels: Partial<LogLevels>): void {
    for (const scope of LOG_SCOPES) {
      const level = levels[scope]
      if (level) this.#loggers[scope].level = level
    }
  }
}

/** A child that keeps its level. pino ignores its own option for that if the parent has the same level: such a child follows the parent. */
function childAt(parent: Logger, bindings: object, level: LogLevel): Logger {
  const child = parent.child(bindings)
  child.level = level
  return child
}

function forEachScope<T>(make: (scope: LogScope) => T): Readonly<Record<LogScope, T>> {
  return Object.fromEntries(LOG_SCOPES.map(scope => [scope, make(scope)])) as Readonly<Record<LogScope, T>>
}

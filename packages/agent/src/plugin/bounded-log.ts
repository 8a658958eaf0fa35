/** Limits a plugin's log lines over all its lives: each costs a scrub, between two answers to callers. */
import type { Clock, PluginLog } from '@livery/core/plugin'
import { LogRate } from '../observe/log-rate.ts'
import { clip } from './wire-error.ts'

/** Passes at most 50 lines of each level and 50 printed ones in 10 s, then one that counts the rest. */
export class BoundedLog implements Disposable {
  readonly log: PluginLog
  readonly printed: Pick<PluginLog, 'debug'>
  readonly #flood: LogRate
  #isClosed = false

  constructor(log: PluginLog, clock: Clock) {
    this.#flood = new LogRate(clock, (kind, suppressed, level) =>
      log[level](`${suppressed} more lines of this kind (${kind}) in 10 s`),
    )
    const line =
      (level: keyof PluginLog, kind: string = level) =>
      (message: string) => {
        if (!this.#isClosed && this.#flood.allow(kind, level)) log[level](clip(message))
      }
    this.log = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
    this.printed = { debug: line('debug', 'printed') }
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    this.#flood[Symbol.dispose]()
  }
}

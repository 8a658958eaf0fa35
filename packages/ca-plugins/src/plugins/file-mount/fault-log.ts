/** Reports files that stay unusable while their previous content is in use. */
import type { PluginLog } from '@livery/core/plugin'

interface Fault {
  readonly message: string
  readonly isLogged: boolean
}

/** Two looks in a row must find the same fault: writers take a moment. */
export class FaultLog {
  readonly #log: Pick<PluginLog, 'warn'>
  readonly #faults = new Map<string, Fault>()

  constructor(log: Pick<PluginLog, 'warn'>) {
    this.#log = log
  }

  found(file: string, message: string): void {
    const before = this.#faults.get(file)
    const isSecond = before?.message === message
    this.#faults.set(file, { message, isLogged: isSecond })
    if (isSecond && !before.isLogged) this.#log.warn(`${message} What was read before stays in use.`)
  }

  gone(file: string): void {
    this.#faults.delete(file)
  }
}

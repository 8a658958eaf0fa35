/** The configuration as it was read last, for those who ask for it. */
import type { LoadedConfig } from '../config/load.ts'
import { configJson } from '../config/print.ts'

export class LastRead {
  loaded: LoadedConfig
  /** The keys that are not in force; `undefined` if it is never read again. */
  needsRestart: readonly string[] | undefined

  constructor(started: LoadedConfig) {
    this.loaded = started
  }

  json(): object {
    const { loaded, needsRestart } = this
    return { ...configJson(loaded), ...(needsRestart && { needsRestart }) }
  }
}

/** What the agent hands to every plugin of this package. */
import type { Clock } from '@livery/core'

export interface PluginContext {
  readonly clock: Clock
  /** Tells the operator something that needs no error: one line, without a secret. */
  warn(message: string): void
}

/** What the agent hands to every plugin of this package. */
import type { CAContext } from '@livery/core'

export interface PluginContext extends CAContext {
  /** Tells the operator something that needs no error: one line, without a secret. */
  warn(message: string): void
}

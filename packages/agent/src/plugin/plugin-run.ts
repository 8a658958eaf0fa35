/** One life of a plugin outside of the agent's own thread: in a thread, or in a process of another user. */
import type { PluginLog } from '@livery/core'
import type { AgentMethods, PluginModule, ThreadMethods } from './messages.ts'
import type { Peer } from './two-way-calls.ts'

export interface PluginRunOptions {
  readonly module: PluginModule
  readonly methods: Partial<AgentMethods>
  readonly log: Pick<PluginLog, 'debug'>
}

/** Disposal stops it, however busy it is. */
export interface PluginRun extends AsyncDisposable {
  readonly peer: Peer<ThreadMethods>
  /** Resolves with what it did, as in "crashed: out of luck", once it has ended. The listener closes `peer`. */
  readonly ended: Promise<string>
}

/** MiB; what a plugin with a large client library needs, a few times. */
export const MAX_HEAP = 256

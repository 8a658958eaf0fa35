/** One life of a plugin outside of the agent's own thread: in a thread, or in a process of another user. */
import type { PluginLog } from '@livery/core'
import type { AgentMethods, PluginModule, ThreadMethods } from './messages.ts'
import { PluginProcess } from './plugin-process.ts'
import { PluginThread } from './plugin-thread.ts'
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

/** Never throws: a process that cannot be started has ended. */
export function runPlugin({ module, methods, log }: PluginRunOptions): PluginRun {
  const { user } = module
  return user ? new PluginProcess({ module, user, methods, log }) : new PluginThread({ module, methods, log })
}

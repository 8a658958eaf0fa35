/** Starts a plugin in a thread, or in a process where its section names a user. */
import { PluginProcess } from './plugin-process.ts'
import type { PluginRun, PluginRunOptions } from './plugin-run.ts'
import { PluginThread } from './plugin-thread.ts'

/** Never throws: a process that cannot be started has ended. */
export function startPlugin({ module, methods, log }: PluginRunOptions): PluginRun {
  const { user } = module
  return user ? new PluginProcess({ module, user, methods, log }) : new PluginThread({ module, methods, log })
}

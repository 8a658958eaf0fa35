/** The agent is this list of modules: each opens with what earlier ones made, and ends before them. */
import { admin } from '../admin/module.ts'
import { ca } from '../ca/module.ts'
import type { LoadedConfig } from '../config/load.ts'
import { refuseUnreadKeys } from '../config/unread-keys.ts'
import { files } from '../files/module.ts'
import { pods } from '../kubernetes/module.ts'
import { kubernetesSecrets } from '../kubernetes-secrets/module.ts'
import { type AgentOptions, type Basis, openBasis } from '../life/basis.ts'
import { Life, type Succession } from '../life/life.ts'
import type { LogSink } from '../observe/logger.ts'
import { output } from '../output/module.ts'
import { page } from '../page/module.ts'
import { sds } from '../sds/module.ts'
import { secrets } from '../secrets/module.ts'
import { store } from '../store/module.ts'
import { takeover } from '../takeover/module.ts'
import { trust } from '../trust/module.ts'
import { ModuleList } from './module-list.ts'
import { serve } from './serve.ts'

/** A module is removed with its line, its import and its folder, if it is optional: pods, kubernetesSecrets, files, takeover, store, page, output. */
const MODULES = ModuleList.empty<Basis>()
  .with(pods)
  .with(ca)
  .with(kubernetesSecrets)
  .with(files)
  .with(takeover)
  .with(store)
  .with(trust)
  .with(secrets)
  .with(page)
  .with(admin)
  .with(sds)
  .with(output)
  .with(serve)

/** A running agent. Disposal drains it: not ready, streams asked to end, sockets removed, then all the rest. */
export interface Agent extends AsyncDisposable {
  /** Resolves when another agent causes the disposal: see `sds.takeover` in the configuration. */
  readonly succession: Promise<Succession>
  /**
   * Reads the configuration again and applies what can change at run time: identities, their sockets, shared sockets, the log
   * level. Resolves when that is done, or the log says why it cannot be. Throws a `TypeError` if the agent was started without
   * `load`.
   */
  reload(): Promise<void>
}

/**
 * Resolves when every socket is bound, or waits for another process to leave its path; certificates may come later.
 * Rejects with a `ConfigError`, or an `Error` that says what could not be done; nothing is left open then.
 */
export async function startAgent(loaded: LoadedConfig, sink: LogSink, options: AgentOptions = {}): Promise<Agent> {
  const life = new Life()
  try {
    const { load } = options
    const loadNext = load && (async (signal: AbortSignal) => withReaders(await load(signal)))
    const start = openBasis(withReaders(loaded), sink, { ...options, ...(loadNext && { load: loadNext }) }, life)
    const { reloader } = await MODULES.open(start)
    return {
      succession: life.succession.promise,
      async reload() {
        if (!reloader) throw new TypeError('Cannot reload: the agent was started without a way to load')
        await reloader.reload()
      },
      [Symbol.asyncDispose]: () => life[Symbol.asyncDispose](),
    }
  } catch (error) {
    await life[Symbol.asyncDispose]()
    throw error
  }
}

function withReaders(loaded: LoadedConfig): LoadedConfig {
  refuseUnreadKeys(loaded, MODULES.names)
  return loaded
}

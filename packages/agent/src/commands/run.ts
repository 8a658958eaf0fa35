/** `livery run`: the agent in the foreground. */

import type { Environment } from '../config/environment.ts'
import type { ConfigSources } from '../config/layers.ts'
import { loadConfig } from '../config/load.ts'
import { createLogger } from '../observe/logger.ts'
import { type Agent, startAgent } from '../runtime/app.ts'
import { serveUntilSignal } from './shutdown.ts'
import type { GlobalOptions } from './terminal.ts'

/**
 * Resolves with the exit code when a signal has ended it; rejects if it cannot start. SIGHUP makes it read its
 * configuration again.
 */
export async function runAgent(sources: ConfigSources, { json }: GlobalOptions): Promise<number> {
  const running = Promise.withResolvers<Agent>()
  const onHangup = () => void running.promise.then(agent => agent.reload())
  process.on('SIGHUP', onHangup)
  try {
    return await serve(sources, json, running.resolve)
  } finally {
    process.off('SIGHUP', onHangup)
  }
}

async function serve(
  sources: ConfigSources,
  json: boolean | undefined,
  onStarted: (agent: Agent) => void,
): Promise<number> {
  const loaded = await loadConfig(sources)
  // Reads the same file each time: if it has vanished, that is a fault and not sidecar mode.
  const load = (signal: AbortSignal) => loadConfig({ ...sources, file: loaded.file, signal })
  const { level, format } = loaded.config.log
  await using sink = await createLogger({ level, format: json ? 'json' : format })
  return await serveUntilSignal(sink.logger, async signal => {
    const agent = await startAgent(loaded, sink, { signal, load, staysWhenSucceeded: isInPod(sources.environment) })
    onStarted(agent)
    return agent
  })
}

/** Kubernetes restarts an ended container of a DaemonSet, and the new one would take everything back. */
function isInPod(environment: Environment): boolean {
  return environment['KUBERNETES_SERVICE_HOST'] !== undefined
}

/** `livery run`: the agent in the foreground. */
import { Agent } from '../agent.ts'
import type { ConfigSources } from '../config/layers.ts'
import { loadConfig } from '../config/load.ts'
import { createLogger } from '../observe/logger.ts'
import { serveUntilSignal } from './shutdown.ts'
import type { GlobalOptions } from './terminal.ts'

/** Resolves with the exit code when a signal has ended it; rejects if it cannot start. */
export async function runAgent(sources: ConfigSources, { json }: GlobalOptions): Promise<number> {
  const loaded = loadConfig(sources)
  const { level, format } = loaded.config.log
  using sink = createLogger({ level, format: json ? 'json' : format })
  return await serveUntilSignal(sink.logger, signal => Agent.start(loaded, sink, signal))
}

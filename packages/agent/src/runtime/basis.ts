/** What there is before the first module: the process, the clock, log and metrics, keys. */
import { Events, type SecretReport, SystemClock, shareFolders } from '@livery/core'
import type { Config, LoadedConfig } from '../config/load.ts'
import type { Life } from '../life/life.ts'
import { EventLog } from '../observe/event-log.ts'
import type { LogSink } from '../observe/logger.ts'
import { Metrics } from '../observe/metrics.ts'
import { processMetrics } from '../observe/process-metrics.ts'
import { chooseKeyGenerator } from './choose-key-generator.ts'
import { LastRead } from './last-read.ts'
import { chooseKeyVault, keepOutOfCoreFiles, warnOfLessStrictPaths, warnOfUnsetClock } from './process-setup.ts'
import { VERSION } from './version.ts'

export interface AgentOptions {
  /** Aborts the start. */
  readonly signal?: AbortSignal
  /**
   * Loads the configuration again, from where it came from. With it the file is watched. The signal is aborted when the
   * agent closes, which does not wait for it. Default: the configuration stays as it is.
   */
  readonly load?: (signal: AbortSignal) => Promise<LoadedConfig>
  /**
   * Stays when another agent has taken over, until it is disposed: for a process that would be started again when it ends.
   * Default: false.
   */
  readonly staysWhenSucceeded?: boolean
}

export type Start = ReturnType<typeof openBasis>

export function openBasis(loaded: LoadedConfig, sink: LogSink, options: AgentOptions, life: Life) {
  const { config, root, warnings } = loaded
  const { logger, scopes } = sink
  for (const warning of warnings) scopes.of('config').warn(warning)
  shareFolders(config.sharedFolders)
  keepOutOfCoreFiles(logger)
  const clock = life.parts.use(new SystemClock())
  warnOfUnsetClock(clock, logger)
  const log = life.parts.use(new EventLog(scopes, clock))
  const metrics = life.parts.use(new Metrics())
  const keyGenerator = chooseKeyGenerator(config, message => logger.warn(message))
  const vault = chooseKeyVault(logger)
  warnOfLessStrictPaths(logger)
  metrics.add(processMetrics({ version: VERSION, keyGenerator: keyGenerator.name, droppedLogLines: sink.dropped }))
  const { signal: stop, load, staysWhenSucceeded = false } = options
  return {
    config,
    reloads: new Events<Config>(),
    life,
    clock,
    scopes,
    log,
    metrics,
    keyGenerator,
    vault,
    events: new Events<SecretReport>(),
    root,
    version: VERSION,
    lastRead: new LastRead(loaded),
    stop,
    load,
    staysWhenSucceeded,
  }
}

/** The parts that exist before the first module: the process, the clock, log and metrics, keys. */
import { Events, type SecretReport } from '@livery/core'
import { type Clock, SystemClock, shareFolders } from '@livery/core/plugin'
import type { Config, LoadedConfig } from '../config/load.ts'
import { EventLog } from '../observe/event-log.ts'
import type { LogSink } from '../observe/logger.ts'
import { Metrics } from '../observe/metrics.ts'
import { processMetrics } from '../observe/process-metrics.ts'
import { chooseKeyGenerator } from './choose-key-generator.ts'
import type { Life } from './life.ts'
import { chooseKeyVault, keepOutOfCoreFiles, warnOfUnsetClock } from './process-setup.ts'
import { VERSION } from './version.ts'

export interface AgentOptions {
  /** Aborts the start. */
  readonly signal?: AbortSignal
  /**
   * Loads the configuration again from its sources. If given, the file is watched. The signal is aborted when the agent
   * closes, which does not wait for it. Default: the configuration stays as it is.
   */
  readonly load?: (signal: AbortSignal) => Promise<LoadedConfig>
  /**
   * Stays after another agent has taken over, until it is disposed: for a process that would be restarted when it ends.
   * Default: false.
   */
  readonly staysWhenSucceeded?: boolean
}

/** The configuration as it was read last. */
export interface LastRead {
  loaded: LoadedConfig
  /** Its keys that are not in force; `undefined` if it is never read again. */
  needsRestart: readonly string[] | undefined
}

/** The argument of every module. */
export type Basis = ReturnType<typeof openBasis>

export function openBasis(loaded: LoadedConfig, sink: LogSink, options: AgentOptions, life: Life) {
  const { config, root, warnings } = loaded
  const { logger, scopes } = sink
  for (const warning of warnings) scopes.of('config').warn(warning)
  shareFolders(config.sharedFolders)
  keepOutOfCoreFiles(logger)
  const clock: Clock = life.parts.use(new SystemClock())
  warnOfUnsetClock(clock, logger)
  const log = life.parts.use(new EventLog(scopes, clock))
  const metrics = life.parts.use(new Metrics())
  const keyGenerator = chooseKeyGenerator(config, message => logger.warn(message))
  const vault = chooseKeyVault(logger)
  metrics.add(processMetrics({ version: VERSION, keyGenerator: keyGenerator.name, droppedLogLines: sink.dropped }))
  const { signal: stop, load, staysWhenSucceeded = false } = options
  const lastRead: LastRead = { loaded, needsRestart: load && [] }
  return {
    config,
    /** The configuration as written. */
    root,
    /** Emits each new configuration in force; a listener is called in the turn in which its sockets change. */
    reloads: new Events<Config>(),
    lastRead,
    load,
    /** Aborts the start. */
    stop,
    staysWhenSucceeded,
    life,
    clock,
    scopes,
    log,
    metrics,
    keyGenerator,
    vault,
    /** Events of secrets. */
    events: new Events<SecretReport>(),
  }
}

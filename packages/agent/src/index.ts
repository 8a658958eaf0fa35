/** The public names of `@livery/agent`: what it takes to run an agent inside another program. */

export type { Environment } from './config/environment.ts'
export type { ConfiguredIdentity } from './config/identities.ts'
export type { ConfigSources } from './config/layers.ts'
export type { Config, LoadedConfig } from './config/load.ts'
export { loadConfig } from './config/load.ts'
export type { AgentOptions } from './life/basis.ts'
export type { Logger, LogSink } from './observe/logger.ts'
export { createLogger } from './observe/logger.ts'
export type { Agent } from './runtime/app.ts'
export { startAgent } from './runtime/app.ts'
export type { Origin, Problem } from './schema/config-error.ts'
export { ConfigError } from './schema/config-error.ts'

/** Makes the CA client that the configuration tells of: the plugin's, with what the agent sets up for it. */
import type { CAClient, CAContext, Clock, ConfigOf, CredentialSource, PluginLog, PluginOptions } from '@livery/core'
import type { CASection } from '../config/ca-section.ts'
import type { Origin } from '../config/config-error.ts'
import { ConfigError } from '../config/config-error.ts'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'
import type { PluginCounters } from './plugin-counters.ts'

/** What a plugin gets of the agent. */
export interface PluginParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly counters: PluginCounters
}

/** The part of a configuration that it takes. */
export interface CAConfig {
  readonly config: Pick<Config, 'ca' | 'trustDomain'>
  origin(path: string): Origin
}

/**
 * Rejects with a {@link ConfigError} for what the plugin cannot use, or with the plugin's own error. What has to be closed
 * is added to `stack`, the client too.
 */
export async function createCAClient(
  { config, origin }: CAConfig,
  parts: PluginParts,
  stack: AsyncDisposableStack,
): Promise<CAClient> {
  const { ca, trustDomain } = config
  try {
    const context = await contextOf(ca, trustDomain, parts, stack)
    return stack.use(await ca.plugin.create(context, ca.options as ConfigOf<PluginOptions>))
  } catch (error) {
    if (error instanceof TypeError)
      throw new ConfigError([{ origin: origin('ca'), path: 'ca', text: error.message }], { cause: error })
    throw error
  }
}

async function contextOf(
  ca: CASection,
  trustDomain: string,
  parts: PluginParts,
  stack: AsyncDisposableStack,
): Promise<CAContext> {
  const log = pluginLog(parts.logger, ca.plugin.name)
  const tls = await connectionOf(ca, log)
  const credentials = await credentialsOf(ca, parts, stack)
  return {
    clock: parts.clock,
    trustDomain,
    log,
    metrics: parts.counters,
    ...(tls && { tls }),
    ...(credentials && { credentials }),
  }
}

async function connectionOf({ rootCert, clientCertificate }: CASection, log: PluginLog): Promise<CAContext['tls']> {
  if (rootCert === undefined && !clientCertificate) return undefined
  const { connectionTls } = await import('@livery/ca-plugins/connection')
  return connectionTls({
    ...(rootCert !== undefined && { rootCert }),
    ...(clientCertificate && { clientCertificate }),
    log,
  })
}

async function credentialsOf(
  { credentials, tokenFile }: CASection,
  { clock, logger }: PluginParts,
  stack: AsyncDisposableStack,
): Promise<CredentialSource | undefined> {
  if (!credentials) return undefined
  const { plugin, options } = credentials
  const context = { clock, log: pluginLog(logger, plugin.name), ...(tokenFile !== undefined && { tokenFile }) }
  const source: CredentialSource & Partial<AsyncDisposable> = await plugin.create(
    context,
    options as ConfigOf<PluginOptions>,
  )
  // One from a module has a thread to end.
  stack.defer(async () => await source[Symbol.asyncDispose]?.())
  return source
}

/** No child logger: it would keep the level of now when that of the agent changes. */
function pluginLog(logger: Logger, plugin: string): PluginLog {
  return {
    debug: message => logger.debug({ plugin }, message),
    info: message => logger.info({ plugin }, message),
    warn: message => logger.warn({ plugin }, message),
    error: message => logger.error({ plugin }, message),
  }
}

/** The CA for the start line: the plugin, and what it cannot do without. */
export function describeCA({ plugin, options }: CASection): string {
  const told = Object.entries(plugin.options).flatMap(([name, option]) => {
    const shown = option.type === 'string' && option.required && !option.secret
    return shown ? [String(options[name])] : []
  })
  return told.length === 0 ? plugin.name : `${plugin.name} at ${told.join(', ')}`
}

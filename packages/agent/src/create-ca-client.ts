/** Picks the CA client that the configuration names. */
import type { CAClient, CAContext, Clock } from '@livery/core'
import { ConfigError } from './config/config-error.ts'
import type { Config, LoadedConfig } from './config/load.ts'

/** What a plugin gets of the agent. */
export interface PluginParts {
  readonly clock: Clock
  warn(message: string): void
}

/** Rejects with a {@link ConfigError} for what the plugin cannot use, or with the plugin's own error. */
export async function createCAClient({ config, origin }: LoadedConfig, parts: PluginParts): Promise<CAClient> {
  try {
    return await createPlugin(config, parts)
  } catch (error) {
    if (error instanceof TypeError)
      throw new ConfigError([{ origin: origin('ca'), path: 'ca', text: error.message }], { cause: error })
    throw error
  }
}

/** Loads only the plugin that is used: the embedded CA alone takes a tenth of a second. */
async function createPlugin({ ca, trustDomain }: Config, parts: PluginParts): Promise<CAClient> {
  const context = pluginContext(trustDomain, parts)
  switch (ca.plugin) {
    case 'embedded': {
      const { plugin: _, keyType = 'ecdsa-p256', intermediate = false, maxTtl = 90 * DAY_MS, ...options } = ca
      const { embedded } = await import('@livery/ca-plugins/embedded')
      return embedded.create(context, defined({ ...options, keyType, intermediate, maxTtl }))
    }
    case 'citadel': {
      const {
        plugin: _,
        rootCert,
        clientCertificate,
        tokenFile,
        impersonate = false,
        timeout = 10_000,
        ...options
      } = ca
      const { citadel } = await import('@livery/ca-plugins/citadel')
      const { connectionTls } = await import('@livery/ca-plugins/connection')
      const credentials = await import('@livery/ca-plugins/credentials')
      const connection = defined({ rootCert, clientCertificate, log: context.log })
      return citadel.create(
        {
          ...context,
          credentials: await credentials.tokenFile.create(defined({ ...context, tokenFile }), {}),
          ...((rootCert ?? clientCertificate) && { tls: connectionTls(connection) }),
        },
        defined({ ...options, impersonate, timeout }),
      )
    }
  }
}

const DAY_MS = 86_400_000

function pluginContext(trustDomain: string, { clock, warn }: PluginParts): CAContext {
  const silent = (): void => {}
  return {
    clock,
    trustDomain,
    log: { debug: silent, info: silent, warn, error: warn },
    metrics: { counter: () => ({ add: silent }) },
  }
}

/** The CA for the start line. */
export function describeCA({ ca }: Config): string {
  switch (ca.plugin) {
    case 'embedded':
      return `embedded (${ca.directory ?? 'in memory'}), not for production`
    case 'citadel':
      return `citadel at ${ca.address}`
  }
}

/** Without the keys that are `undefined`: to the plugins they would be values. */
type Defined<T> = { [K in keyof T]: Exclude<T[K], undefined> }

function defined<T extends object>(options: T): Defined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Defined<T>
}

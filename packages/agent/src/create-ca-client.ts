/** Picks the CA client that the configuration names. */
import type { PluginContext } from '@livery/ca-plugins'
import type { CAClient } from '@livery/core'
import { ConfigError } from './config/config-error.ts'
import type { Config, LoadedConfig } from './config/load.ts'

/** Rejects with a {@link ConfigError} for what the plugin cannot use, or with the plugin's own error. */
export async function createCAClient({ config, origin }: LoadedConfig, context: PluginContext): Promise<CAClient> {
  try {
    return await createPlugin(config, context)
  } catch (error) {
    if (error instanceof TypeError)
      throw new ConfigError([{ origin: origin('ca'), path: 'ca', text: error.message }], { cause: error })
    throw error
  }
}

/** Loads only the plugin that is used: the embedded CA alone takes a tenth of a second. */
async function createPlugin({ ca, trustDomain }: Config, context: PluginContext): Promise<CAClient> {
  switch (ca.plugin) {
    case 'embedded': {
      const { plugin: _, maxTtl, ...options } = ca
      const { createEmbedded } = await import('@livery/ca-plugins')
      return createEmbedded(defined({ ...options, trustDomain, maxTtlSeconds: maxTtl && maxTtl / 1000 }), context)
    }
    case 'citadel': {
      const { plugin: _, timeout, ...options } = ca
      const { createCitadel } = await import('@livery/ca-plugins/citadel')
      return createCitadel(defined({ ...options, timeoutMs: timeout }), context)
    }
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

/** Picks the CA client that the configuration names. */
import { createCitadel, createEmbedded, type PluginContext } from '@livery/ca-plugins'
import type { CAClient } from '@livery/core'
import type { Config } from './config/load.ts'

/** Rejects with the plugin's own error, which names the value, the reason and the remedy. */
export async function createCAClient({ ca, trustDomain }: Config, context: PluginContext): Promise<CAClient> {
  switch (ca.plugin) {
    case 'embedded': {
      const { plugin: _, maxTtl, ...options } = ca
      return createEmbedded(defined({ ...options, trustDomain, maxTtlSeconds: maxTtl && maxTtl / 1000 }), context)
    }
    case 'citadel': {
      const { plugin: _, timeout, ...options } = ca
      return createCitadel(defined({ ...options, timeoutMs: timeout }), context)
    }
  }
}

/** What `config` calls absent, the plugins want left out. */
export function describeCA({ ca }: Config): string {
  switch (ca.plugin) {
    case 'embedded':
      return `embedded (${ca.directory ?? 'in memory'}), not for production`
    case 'citadel':
      return `citadel at ${ca.address}`
  }
}

type Defined<T> = { [K in keyof T]: Exclude<T[K], undefined> }

function defined<T extends object>(options: T): Defined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Defined<T>
}

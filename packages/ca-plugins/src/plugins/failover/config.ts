/** What an operator sets for the `failover` plugin. */
import type { ConfigOf, PluginOptions } from '@livery/core/plugin'

export const failoverOptions = {
  roots: { type: 'path', description: 'a PEM file with roots that are always served, beside those of the CAs' },
} as const satisfies PluginOptions

export type FailoverConfig = ConfigOf<typeof failoverOptions>

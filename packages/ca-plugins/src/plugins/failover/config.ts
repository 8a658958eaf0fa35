/** What an operator sets for the `failover` plugin. */
import type { ConfigOf, PluginOptions } from '@livery/core/plugin'

export const failoverOptions = {
  after: {
    type: 'duration',
    min: '0s',
    description:
      'how long a renewal waits for the first CA before the next one is asked; without it, and at the longest, until half is left of what was left when it failed. Who has no certificate never waits',
  },
  roots: { type: 'path', description: 'a PEM file with roots that are always served, beside those of the CAs' },
} as const satisfies PluginOptions

export type FailoverConfig = ConfigOf<typeof failoverOptions>

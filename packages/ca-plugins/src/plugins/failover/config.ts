/** Options of the `failover` plugin. */
import type { ConfigOf, PluginOptions } from '@livery/core/plugin'

export const failoverOptions = {
  after: {
    type: 'duration',
    min: '0s',
    description:
      'how long a renewal waits for the first CA before the next one is asked; default and maximum: half of the life that the certificate had left at the first failure. A first certificate never waits',
  },
  roots: { type: 'path', description: 'a PEM file with roots that are always served beside the roots of the CAs' },
} as const satisfies PluginOptions

export type FailoverConfig = ConfigOf<typeof failoverOptions>

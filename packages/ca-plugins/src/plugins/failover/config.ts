/** What an operator sets for the `failover` plugin. */
import type { ConfigOf, PluginOptions } from '@livery/core'

export const failoverOptions = {
  timeout: {
    type: 'duration',
    default: '10s',
    min: '100ms',
    max: '5m',
    description:
      'how long one CA may take before the next one is asked. A CA that waits for an approval has the time of the request (30 s)',
  },
  pause: {
    type: 'duration',
    default: '30s',
    min: '1s',
    max: '1h',
    description:
      'how long a CA is left alone after three failures in a row; doubled each time that it fails again, up to 5 m',
  },
  roots: { type: 'path', description: 'a PEM file with roots that are always served, beside those of the CAs' },
} as const satisfies PluginOptions

export type FailoverConfig = ConfigOf<typeof failoverOptions>

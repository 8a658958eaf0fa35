/** What an operator sets for the `failover` plugin, and the check that only it can make. */
import { type ConfigOf, OptionError, type PluginOptions } from '@livery/core'

export const failoverOptions = {
  timeout: {
    type: 'duration',
    default: '10s',
    min: '100ms',
    max: '5m',
    description:
      'how long one CA may take before the next one is asked. A CA that waits for an approval has the time of the request (30 s)',
  },
  failures: {
    type: 'number',
    default: 3,
    min: 1,
    max: 100,
    description: 'failures in a row after which a CA is left alone',
  },
  pause: {
    type: 'duration',
    default: '30s',
    min: '1s',
    max: '1h',
    description: 'how long it is left alone at first; doubled each time that it fails again',
  },
  maxPause: {
    type: 'duration',
    default: '5m',
    min: '1s',
    max: '24h',
    description: 'the longest that it is left alone',
  },
  roots: { type: 'path', description: 'a PEM file with roots that are always served, beside those of the CAs' },
} as const satisfies PluginOptions

export type FailoverConfig = ConfigOf<typeof failoverOptions>

export function checkConfig({ pause, maxPause }: FailoverConfig): void {
  if (pause > maxPause)
    throw new OptionError(
      'pause',
      `Cannot use pause ${pause} ms: it is longer than maxPause, ${maxPause} ms. Lower pause or raise maxPause.`,
    )
}

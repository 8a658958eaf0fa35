/** Options of the `spiffe` plugin. */
import type { PluginOptions } from '@livery/core/plugin'
import { endpointProblem } from './workload-endpoint.ts'

export const spiffeOptions = {
  address: {
    type: 'string',
    required: true,
    description:
      'the Workload API, in the forms of `SPIFFE_ENDPOINT_SOCKET`, which itself is not read: `unix:///path/to/socket`, or `tcp://IP-ADDRESS:PORT`',
    problem: endpointProblem,
  },
} as const satisfies PluginOptions

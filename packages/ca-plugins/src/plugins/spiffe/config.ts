/** What an operator sets for the `spiffe` plugin. */
import type { PluginOptions } from '@livery/core'
import { endpointProblem } from './workload-endpoint.ts'

export const spiffeOptions = {
  address: {
    type: 'string',
    required: true,
    description:
      'the Workload API, in the forms of `SPIFFE_ENDPOINT_SOCKET`, which itself is not read: `unix:///path/to/socket`, or `tcp://IP-ADDRESS:PORT`',
    problem: endpointProblem,
  },
  timeout: {
    type: 'duration',
    default: '10s',
    min: '100ms',
    max: '5m',
    description: 'how long its first answer on a stream may take',
  },
} as const satisfies PluginOptions

/** The `spiffe` plugin: a SPIFFE Workload API, such as that of a SPIRE agent, as the source of identities. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core'
import { SpiffeClient } from './client.ts'
import { endpointProblem, leavesMachine } from './workload-endpoint.ts'

export const spiffe = defineCAPlugin({
  apiVersion: 1,
  name: 'spiffe',
  capabilities: { roots: 'push', ttl: 'ignored', san: 'config', keyTypes: KEY_TYPES, bringsKey: true },
  options: {
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
  },
  create(context, { address, timeout }) {
    if (leavesMachine(address))
      context.log.warn(`address ${address} is on another machine: keys cross the network in the clear. Use a socket.`)
    return new SpiffeClient({ context, address, timeoutMs: timeout })
  },
})

/** The `spiffe` plugin: a SPIFFE Workload API, such as a SPIRE agent's, as the source of identities. */
import { defineCAPlugin, KEY_TYPES, type PluginOptions } from '@livery/core/plugin'
import { CALL_TIMEOUT_MS } from '../../transport/call-timeout.ts'
import { SpiffeClient } from './client.ts'
import { endpointProblem, leavesMachine } from './workload-endpoint.ts'

const spiffeOptions = {
  address: {
    type: 'string',
    required: true,
    description:
      'the Workload API, in the forms of `SPIFFE_ENDPOINT_SOCKET`, which itself is not read: `unix:///path/to/socket`, or `tcp://IP-ADDRESS:PORT`',
    problem: endpointProblem,
  },
} as const satisfies PluginOptions

export const spiffe = defineCAPlugin({
  apiVersion: 1,
  name: 'spiffe',
  capabilities: {
    roots: 'push',
    // A client of this API replaces its bundle with each push, and SPIRE drops a root that has not expired only
    // to revoke it.
    revokesMissingRoots: true,
    ttl: 'ignored',
    san: 'config',
    keyTypes: KEY_TYPES,
    bringsKey: true,
  },
  options: spiffeOptions,
  create(context, { address }) {
    if (leavesMachine(address))
      context.log.warn(`address ${address} is on another machine: keys cross the network in the clear. Use a socket.`)
    return new SpiffeClient(context, address, CALL_TIMEOUT_MS)
  },
})

export { spiffe as plugin }

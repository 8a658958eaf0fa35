/** The `spiffe` plugin: a SPIFFE Workload API, such as a SPIRE agent's, as the source of identities. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core/plugin'
import { CALL_TIMEOUT_MS } from '../../transport/call-timeout.ts'
import { SpiffeClient } from './client.ts'
import { spiffeOptions } from './config.ts'
import { leavesMachine } from './workload-endpoint.ts'

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

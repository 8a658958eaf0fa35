/** The `spiffe` plugin: a SPIFFE Workload API, such as that of a SPIRE agent, as the source of identities. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core'
import { SpiffeClient } from './client.ts'
import { spiffeOptions } from './config.ts'
import { leavesMachine } from './workload-endpoint.ts'

export const spiffe = defineCAPlugin({
  apiVersion: 1,
  name: 'spiffe',
  capabilities: { roots: 'push', ttl: 'ignored', san: 'config', keyTypes: KEY_TYPES, bringsKey: true },
  options: spiffeOptions,
  create(context, { address, timeout }) {
    if (leavesMachine(address))
      context.log.warn(`address ${address} is on another machine: keys cross the network in the clear. Use a socket.`)
    return new SpiffeClient({ context, address, timeoutMs: timeout })
  },
})

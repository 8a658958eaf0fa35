/** The `vault` plugin: its capabilities, and how a configuration becomes a client. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core/plugin'
import { VaultClient } from './client.ts'
import { vaultOptions } from './config.ts'

export const vault = defineCAPlugin({
  apiVersion: 1,
  name: 'vault',
  capabilities: { roots: 'poll', ttl: 'clamped', san: 'csr', dnsNames: true, keyTypes: KEY_TYPES },
  needs: ['tls', 'credentials'],
  options: vaultOptions,
  create(context, config) {
    const { credentials } = context
    if (credentials) return new VaultClient(context, config, credentials)
    throw new TypeError(
      'Cannot use vault: there is no token to ask with. Set tokenFile to a file with a Vault token, or kubernetes and tokenFile to that of a service account.',
    )
  },
})

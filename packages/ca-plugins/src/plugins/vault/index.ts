/** The `vault` plugin: its capabilities, and how a configuration becomes a client. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core/plugin'
import { VaultClient } from './client.ts'
import { vaultOptions } from './config.ts'

export type { VaultConfig } from './config.ts'

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
      'Cannot use vault: no token is configured. Set tokenFile to a file with a Vault token, or set kubernetes, and tokenFile to the file of a service account token.',
    )
  },
})

export { vault as plugin }

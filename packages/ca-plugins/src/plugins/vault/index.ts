/** The public names of `@livery/ca-plugins/vault`. */

export { vault as plugin, vault } from './vault.ts'
export type { VaultConfig } from './vault-config.ts'

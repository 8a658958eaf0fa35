/** The public names of `@livery/ca-plugins/vault`. */

export { vault as plugin, vault } from './client.ts'
export type { VaultConfig } from './plugin.ts'

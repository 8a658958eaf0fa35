/** The public names of `@livery/ca-plugins/vault`. */

export type { VaultConfig } from './plugin.ts'
export { vault as plugin, vault } from './plugin.ts'

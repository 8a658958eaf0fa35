/** The public names of `@livery/ca-plugins/vault`. */

export type { VaultConfig } from './config.ts'
export { vault as plugin, vault } from './plugin.ts'

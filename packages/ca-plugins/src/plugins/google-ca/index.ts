/** The public names of `@livery/ca-plugins/google-ca`. */

export type { GoogleCaConfig } from './config.ts'
export { casCapabilities, googleCa, googleCa as plugin, meshCaCapabilities } from './plugin.ts'

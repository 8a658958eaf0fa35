/** The public names of `@livery/ca-plugins/google-ca`. */

export { casCapabilities, googleCa, googleCa as plugin, meshCaCapabilities } from './google-ca.ts'
export type { GoogleCaConfig } from './plugin.ts'

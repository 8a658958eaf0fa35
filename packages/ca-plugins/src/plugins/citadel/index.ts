/** The public names of `@livery/ca-plugins/citadel`. */

export { citadel, citadel as plugin } from './citadel.ts'
export type { CitadelConfig } from './citadel-config.ts'

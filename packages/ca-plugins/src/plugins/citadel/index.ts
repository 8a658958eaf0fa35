/** The public names of `@livery/ca-plugins/citadel`. */

export type { CitadelConfig } from './config.ts'
export { citadel, citadel as plugin } from './plugin.ts'

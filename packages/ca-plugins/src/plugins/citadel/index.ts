/** The public names of `@livery/ca-plugins/citadel`. */

export { citadel, citadel as plugin } from './client.ts'
export type { CitadelConfig } from './plugin.ts'

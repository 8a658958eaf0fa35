/** The public names of `@livery/ca-plugins/citadel`. */

export type { PluginContext } from '../plugin-context.ts'
export { createCitadel } from './citadel.ts'
export type { CitadelConfig } from './citadel-config.ts'

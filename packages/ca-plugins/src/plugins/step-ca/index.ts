/** The public names of `@livery/ca-plugins/step-ca`. */

export type { StepCaConfig } from './config.ts'
export { stepCa as plugin, stepCa } from './plugin.ts'

/** The public names of `@livery/ca-plugins/step-ca`. */

export { stepCa as plugin, stepCa } from './client.ts'
export type { StepCaConfig } from './plugin.ts'

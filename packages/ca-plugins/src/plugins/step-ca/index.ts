/** The public names of `@livery/ca-plugins/step-ca`. */

export { stepCa as plugin, stepCa } from './step-ca.ts'
export type { StepCaConfig } from './step-ca-config.ts'

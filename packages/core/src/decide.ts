/** The public names of `@livery/core/decide`: the decisions without the engine, for simulations. */

export type { Root } from './contract/trust-anchor.ts'
export { decide } from './decide/decide.ts'
export { slotOf } from './decide/renewal-time.ts'
export type { Action, Answer, Event, Policy } from './decide/step.ts'
export { nextWake } from './decide/wake.ts'
export { schedulingOf } from './secret-manager-options.ts'
export type { Request } from './state/identity.ts'
export { newState, type State } from './state/state.ts'
export { Heap } from './time/heap.ts'
export { RootReader } from './trust/root-reader.ts'
export { judge } from './x509/ca-answer-verifier.ts'

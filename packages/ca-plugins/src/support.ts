/** The public names of `@livery/ca-plugins/support`: what makes the plugins of this package safe, for the plugins of others. */

export type { Failure } from './answers/ca-error.ts'
export { caError } from './answers/ca-error.ts'
export type { Answer, SplitChain } from './answers/certificate-chain.ts'
export { badAnswer, ChainReader, rootsInBundle } from './answers/certificate-chain.ts'
export { reasonOf } from './answers/reason-of.ts'
export { scrub } from './answers/scrub.ts'
export { Closable } from './transport/closable.ts'
export type { HttpsJsonOptions, JsonAnswer, JsonRequest } from './transport/https-json.ts'
export { addressProblem, HttpsJson, retryAfterOf } from './transport/https-json.ts'
export { retryDelayOf } from './transport/retry-info.ts'

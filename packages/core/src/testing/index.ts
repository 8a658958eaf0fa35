/** Fakes that do the work, for the tests of Livery and of those who extend it. */
export { FakeClock } from './fake-clock.ts'
export { type IssuedPair, PairIssuer } from './pair-issuer.ts'
export { privateKeyOf } from './reveal-key.ts'
export type { CertificateOverrides, TestIssuer } from './test-ca.ts'
export { makeCrl, makeIssuer, TestCA } from './test-ca.ts'
export { TestKeyGenerator } from './test-key-generator.ts'

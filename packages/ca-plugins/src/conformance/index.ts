/** The public names of `@livery/ca-plugins/conformance`: the suite that proves a CA plugin, a CA with switches to prove it at, and the run against a live CA. */

export type { ConformanceSetup } from './kit/bench.ts'
export type { ConformanceGroup } from './kit/conformance-case.ts'
export type { BroughtCertificate, FakeCAOptions } from './kit/fake-ca.ts'
export { FakeCA } from './kit/fake-ca.ts'
export type { FakeCAAnswer, FakeCARequest } from './kit/fake-ca-answer.ts'
export type { CAFault, CASwitch, RefusalCode } from './kit/fake-ca-fault.ts'
export { CA_SWITCHES } from './kit/fake-ca-fault.ts'
export type { ConformanceReport, ConformanceResult, RunAgainstOptions } from './run-against.ts'
export { runAgainst } from './run-against.ts'
export type { RegisterTest, SuiteOptions } from './suite.ts'
export { suite } from './suite.ts'

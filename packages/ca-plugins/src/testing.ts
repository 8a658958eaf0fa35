/** The public names of `@livery/ca-plugins/testing`: a CA server with faults, requests for it, and a plugin's context. */

export type { CaBehaviour, FaultyCaServerOptions, RecordedCall } from './testing/faulty-ca-server.ts'
export { FaultyCaServer } from './testing/faulty-ca-server.ts'
export type { RecordingContext } from './testing/plugin-context.ts'
export { pluginContext, warningsOf } from './testing/plugin-context.ts'
export type { WorkloadRequest, WorkloadRequestOptions } from './testing/workload-request.ts'
export { workloadRequest } from './testing/workload-request.ts'

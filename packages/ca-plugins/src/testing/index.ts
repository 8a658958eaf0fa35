/** The public names of `@livery/ca-plugins/testing`: a CA server with faults, requests for it, and a plugin's context. */

export type { CaBehaviour, FaultyCaServerOptions, RecordedCall } from './faulty-ca-server.ts'
export { FaultyCaServer } from './faulty-ca-server.ts'
export type { RecordingContext } from './plugin-context.ts'
export { pluginContext, warningsOf } from './plugin-context.ts'
export type { WorkloadRequest, WorkloadRequestOptions } from './workload-request.ts'
export { workloadRequest } from './workload-request.ts'

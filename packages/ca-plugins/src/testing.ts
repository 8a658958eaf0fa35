/** The public names of `@livery/ca-plugins/testing`: a CA server with faults, and requests for it. */

export type { CaBehaviour, FaultyCaServerOptions, RecordedCall } from './testing/faulty-ca-server.ts'
export { FaultyCaServer } from './testing/faulty-ca-server.ts'
export type { WorkloadRequest, WorkloadRequestOptions } from './testing/workload-request.ts'
export { workloadRequest } from './testing/workload-request.ts'

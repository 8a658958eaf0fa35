/** The gRPC status with which a CA that speaks gRPC makes each refusal of the kit's fake CA. */
import { status } from '@grpc/grpc-js'
import type { RefusalCode } from '../src/conformance/index.ts'

export const REFUSAL_STATUS: Readonly<Record<RefusalCode, status>> = {
  unauthenticated: status.UNAUTHENTICATED,
  denied: status.PERMISSION_DENIED,
  'invalid-csr': status.INVALID_ARGUMENT,
  'ttl-too-long': status.INVALID_ARGUMENT,
  'rate-limited': status.RESOURCE_EXHAUSTED,
  unavailable: status.UNAVAILABLE,
}

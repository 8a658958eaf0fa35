/** Requests from bytes. Fields that Livery does not use, above all Envoy's 61 kB of extensions, are skipped unread. */
import { DeltaDiscoveryRequest, DiscoveryRequest } from './gen/envoy/service/discovery/v3/discovery.ts'
import { HealthCheckRequest } from './gen/grpc/health/v1/health.ts'

/** grpc-js would answer bytes that are no request with INTERNAL; so they come through as such. */
export type Decoded<Request> = { readonly kind: 'request'; readonly request: Request } | { readonly kind: 'malformed' }

export const decodeDiscoveryRequest = decoder(DiscoveryRequest)
export const decodeDeltaRequest = decoder(DeltaDiscoveryRequest)
export const decodeHealthRequest = decoder(HealthCheckRequest)

function decoder<Request>(codec: { decode(bytes: Uint8Array): Request }): (bytes: Uint8Array) => Decoded<Request> {
  return bytes => {
    try {
      return { kind: 'request', request: codec.decode(bytes) }
    } catch {
      // Whatever the reader throws (RangeError, TypeError, Error), the bytes are at fault.
      return { kind: 'malformed' }
    }
  }
}

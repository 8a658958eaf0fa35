/** Requests from bytes. Fields that Livery does not use, above all Envoy's 61 kB of extensions, are skipped unread. */
import { BinaryReader } from '@bufbuild/protobuf/wire'
import { DeltaDiscoveryRequest, DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { HealthCheckRequest } from '../gen/grpc/health/v1/health.ts'
import { X509SVIDRequest } from '../gen/spiffe/workload/workload.ts'

/** grpc-js would answer INTERNAL to bytes that are not a request; so they are decoded to a kind of their own. */
export type Decoded<Request> = { readonly kind: 'request'; readonly request: Request } | { readonly kind: 'malformed' }

export const decodeDiscoveryRequest = decoder(DiscoveryRequest)
export const decodeDeltaRequest = decoder(DeltaDiscoveryRequest)
/** The requests of the Workload API that are served have no fields. */
export const decodeWorkloadRequest = decoder(X509SVIDRequest)

/** An open watch keeps its request, and no service of ours has a longer name. */
const MAX_HEALTH_REQUEST = 512
const decodeAnyHealthRequest = decoder(HealthCheckRequest)

export function decodeHealthRequest(bytes: Buffer): Decoded<HealthCheckRequest> {
  return bytes.length > MAX_HEALTH_REQUEST ? { kind: 'malformed' } : decodeAnyHealthRequest(bytes)
}

/** About how many bytes of the heap a decoded value takes. */
export function heapBytes(value: unknown): number {
  if (typeof value === 'string') return 32 + 2 * value.length
  if (typeof value !== 'object' || value === null) return 8
  let bytes = 64
  for (const [key, each] of Object.entries(value))
    bytes += heapBytes(each) + (Array.isArray(value) ? 8 : 2 * key.length)
  return bytes
}

function decoder<Request>(codec: { decode(reader: BinaryReader): Request }): (bytes: Buffer) => Decoded<Request> {
  return bytes => {
    try {
      return { kind: 'request', request: codec.decode(new RequestReader(bytes)) }
    } catch {
      // Whatever the reader throws (RangeError, TypeError, Error), the bytes are at fault.
      return { kind: 'malformed' }
    }
  }
}

/** Reads texts where they lie: the views that the reader would make of them cost more than all else in a request. */
class RequestReader extends BinaryReader {
  readonly #bytes: Buffer

  constructor(bytes: Buffer) {
    super(bytes)
    this.#bytes = bytes
  }

  override string(): string {
    const length = this.uint32()
    const start = this.pos
    this.pos += length
    if (this.pos > this.len) throw new RangeError('the text ends after the message')
    return this.#bytes.toString('utf8', start, this.pos)
  }
}

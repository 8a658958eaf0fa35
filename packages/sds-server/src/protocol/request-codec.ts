/** Requests from bytes. Fields that Livery does not use, above all Envoy's 61 kB of extensions, are skipped unread. */
import { BinaryReader } from '@bufbuild/protobuf/wire'
import { DeltaDiscoveryRequest, DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { HealthCheckRequest } from '../gen/grpc/health/v1/health.ts'
import { X509SVIDRequest } from '../gen/spiffe/workload/workload.ts'
import { SECRET_TYPE_URL } from './request-check.ts'

/** grpc-js would answer INTERNAL to bytes that are not a request; so they are decoded to a kind of their own. */
export type Decoded<Request> = { readonly kind: 'request'; readonly request: Request } | { readonly kind: 'malformed' }

const decodeAnyDiscoveryRequest = decoder(DiscoveryRequest)
export const decodeDeltaRequest = decoder(DeltaDiscoveryRequest)
/** The requests of the Workload API that are served have no fields. */
export const decodeWorkloadRequest = decoder(X509SVIDRequest)

/** An open watch keeps its request, and no service of ours has a longer name. */
const MAX_HEALTH_REQUEST = 512
const decodeAnyHealthRequest = decoder(HealthCheckRequest)

export function decodeHealthRequest(bytes: Buffer): Decoded<HealthCheckRequest> {
  return bytes.length > MAX_HEALTH_REQUEST ? { kind: 'malformed' } : decodeAnyHealthRequest(bytes)
}

export function decodeDiscoveryRequest(bytes: Buffer): Decoded<DiscoveryRequest> {
  const request = readTexts(bytes)
  return request ? { kind: 'request', request } : decodeAnyDiscoveryRequest(bytes)
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

/** Tags of the texts of a DiscoveryRequest: their number, and wire type 2. */
const TAGS = { versionInfo: 0x0a, resourceNames: 0x1a, typeUrl: 0x22, responseNonce: 0x2a } as const

/**
 * A request that has only texts of less than 128 bytes, such as an ACK, and `undefined` for all other bytes. A reader, its
 * view and its checks took a quarter of the memory that a response allocates.
 */
function readTexts(bytes: Buffer): DiscoveryRequest | undefined {
  let [versionInfo, typeUrl, responseNonce] = ['', '', '']
  const resourceNames: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const tag = bytes[at]
    const length = bytes[at + 1] ?? 0x80
    const start = at + 2
    at = start + length
    if (length >= 0x80 || at > bytes.length) return undefined
    if (tag === TAGS.resourceNames) resourceNames.push(bytes.toString('utf8', start, at))
    else if (tag === TAGS.responseNonce) responseNonce = bytes.toString('utf8', start, at)
    else if (tag === TAGS.typeUrl)
      typeUrl = isSecretType(bytes, start, at) ? SECRET_TYPE_URL : bytes.toString('utf8', start, at)
    else if (tag === TAGS.versionInfo) versionInfo = bytes.toString('utf8', start, at)
    else return undefined
  }
  return { versionInfo, node: undefined, resourceNames, typeUrl, responseNonce, errorDetail: undefined }
}

function isSecretType(bytes: Buffer, start: number, end: number): boolean {
  if (end - start !== SECRET_TYPE_URL.length) return false
  for (let at = start; at < end; at++) if (bytes[at] !== SECRET_TYPE_URL.charCodeAt(at - start)) return false
  return true
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

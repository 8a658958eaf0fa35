/** Requests from bytes, and their checks. Fields that Livery does not use, above all Envoy's 61 kB of extensions, are skipped unread. */
import { BinaryReader } from '@bufbuild/protobuf/wire'
import { DeltaDiscoveryRequest, DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { escapePeerName } from './escape-peer-name.ts'
import { SECRET_TYPE_URL } from './response-content.ts'
import { StreamRefusal } from './stream-refusal.ts'
import { readTextRequest } from './text-request.ts'

const MAX_NAME_BYTES = 2048

/** Malformed bytes are a result and no exception: they are the peer's fault, not a bug. */
export type Decoded<Request> = { readonly kind: 'request'; readonly request: Request } | { readonly kind: 'malformed' }

const decodeAnyDiscoveryRequest = decoder(DiscoveryRequest)
export const decodeDeltaRequest = decoder(DeltaDiscoveryRequest)

export function decodeDiscoveryRequest(bytes: Buffer): Decoded<DiscoveryRequest> {
  const request = readTextRequest(bytes)
  return request ? { kind: 'request', request } : decodeAnyDiscoveryRequest(bytes)
}

/**
 * Refuses any other type. An empty type means the type of the method, as the xDS protocol allows for APIs with one
 * type.
 */
export function checkTypeUrl(typeUrl: string): void {
  if (typeUrl === '' || typeUrl === SECRET_TYPE_URL) return
  throw new StreamRefusal(
    'invalid-argument',
    `type_url "${escapePeerName(typeUrl)}" is not served here: ask for "${SECRET_TYPE_URL}"`,
  )
}

/** Refuses a stream whose first request has no node id; later requests may leave the node out. */
export function checkNode(node: { readonly id: string } | undefined): string {
  if (node?.id) return escapePeerName(node.id)
  throw new StreamRefusal(
    'invalid-argument',
    'missing node information: the first request of a stream has to set node.id',
  )
}

/** Refuses more than `limit` names, and one that cannot be a resource name. */
export function checkNames(names: readonly string[], limit: number): void {
  checkCount(names.length, limit)
  for (const name of names) {
    const problem = nameProblem(name)
    if (problem) throw new StreamRefusal('invalid-argument', `resource name "${escapePeerName(name)}" ${problem}`)
  }
}

/** Refuses more than `limit` names. */
export function checkCount(count: number, limit: number): void {
  if (count <= limit) return
  throw new StreamRefusal('invalid-argument', `${count} resource names on one stream: at most ${limit} are taken`)
}

function nameProblem(name: string): string | undefined {
  if (name === '') return 'is empty'
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return `is longer than ${MAX_NAME_BYTES} bytes`
  // The decoder puts U+FFFD where the bytes were not UTF-8.
  if (name.includes('\ufffd')) return 'is not UTF-8'
  if (/\p{Cc}/u.test(name)) return 'has a control character'
  return undefined
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

/** Decodes the messages of one type. */
export function decoder<Request>(codec: {
  decode(reader: BinaryReader): Request
}): (bytes: Buffer) => Decoded<Request> {
  return bytes => {
    try {
      return { kind: 'request', request: codec.decode(new RequestReader(bytes)) }
    } catch {
      // Whatever the reader throws (RangeError, TypeError, Error), the bytes are at fault.
      return { kind: 'malformed' }
    }
  }
}

/** Reads texts in place: the base class's views of them cost more than the rest of a request. */
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

/** Requests from bytes, and their checks. Fields that Livery does not use, above all Envoy's 61 kB of extensions, are skipped unread. */
import { BinaryReader } from '@bufbuild/protobuf/wire'
import { DeltaDiscoveryRequest, DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { escapeNodeId, escapePeerName } from './escape-peer-name.ts'
import { SECRET_TYPE_URL } from './response-content.ts'
import { StreamRefusal } from './stream-refusal.ts'
import { readTextRequest } from './text-request.ts'

const MAX_NAME_BYTES = 2048

const decodeAnyDiscoveryRequest = decoder(DiscoveryRequest, 'discovery request')
export const decodeDeltaRequest = decoder(DeltaDiscoveryRequest, 'discovery request')

export function decodeDiscoveryRequest(bytes: Buffer): DiscoveryRequest {
  return readTextRequest(bytes) ?? decodeAnyDiscoveryRequest(bytes)
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
  if (node?.id) return escapeNodeId(node.id)
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

/** Decodes the messages of one type, which `what` names. The decoder throws a `StreamRefusal` for all other bytes. */
export function decoder<Request>(
  codec: { decode(reader: BinaryReader): Request },
  what: string,
): (bytes: Buffer) => Request {
  return bytes => {
    try {
      return codec.decode(new RequestReader(bytes))
    } catch {
      // Whatever the reader throws (RangeError, TypeError, Error), the bytes are at fault.
      throw new StreamRefusal('invalid-argument', `the message is not a ${what}`)
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

/** Requests from bytes, and their checks. Fields that Livery does not use, above all Envoy's 61 kB of extensions, are skipped unread. */
import { BinaryReader } from '@bufbuild/protobuf/wire'
import { DeltaDiscoveryRequest, DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { escapePeerName } from './escape-peer-name.ts'
import { StreamRefusal } from './stream-refusal.ts'

/** The only resource type on an SDS stream. */
export const SECRET_TYPE_URL = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret'

const MAX_NAME_BYTES = 2048

/** Malformed bytes are a result and no exception: they are the peer's fault, not a bug. */
export type Decoded<Request> = { readonly kind: 'request'; readonly request: Request } | { readonly kind: 'malformed' }

const decodeAnyDiscoveryRequest = decoder(DiscoveryRequest)
export const decodeDeltaRequest = decoder(DeltaDiscoveryRequest)

export function decodeDiscoveryRequest(bytes: Buffer): Decoded<DiscoveryRequest> {
  const request = readTexts(bytes)
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

/** For the messages of one type. */
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

/** Tags of the texts of a DiscoveryRequest: their number, and wire type 2. */
const TAGS = { versionInfo: 0x0a, resourceNames: 0x1a, typeUrl: 0x22, responseNonce: 0x2a } as const

/**
 * A request that has only texts of less than 128 bytes, such as an ACK, and `undefined` for all other bytes. A reader, its
 * view and its checks took a quarter of the memory that a response allocates.
 */
function readTexts(bytes: Buffer): DiscoveryRequest | undefined {
  let [versionInfo, typeUrl, responseNonce] = ['', '', '']
  let resourceNames: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const field = at
    const tag = bytes[field]
    const start = field + 2
    at = endOfShortText(bytes, field)
    if (Number.isNaN(at)) return undefined
    if (tag === TAGS.resourceNames) {
      const names = namesFrom(bytes, field)
      if (resourceNames.length === 0) resourceNames = names.texts
      else for (const text of names.texts) resourceNames.push(text)
      at = names.end
    } else if (tag === TAGS.responseNonce) responseNonce = bytes.toString('utf8', start, at)
    else if (tag === TAGS.typeUrl)
      typeUrl = isSecretType(bytes, start, at) ? SECRET_TYPE_URL : bytes.toString('utf8', start, at)
    else if (tag === TAGS.versionInfo) versionInfo = bytes.toString('utf8', start, at)
    else return undefined
  }
  return { versionInfo, node: undefined, resourceNames, typeUrl, responseNonce, errorDetail: undefined }
}

/** `NaN` for a text of 128 bytes or more, and for one that ends after the message. */
function endOfShortText(bytes: Buffer, field: number): number {
  const length = bytes[field + 1] ?? 0x80
  const end = field + 2 + length
  return length >= 0x80 || end > bytes.length ? Number.NaN : end
}

/** Reading fewer costs no more than comparing them. */
const MANY_NAMES = 16
/** The most bytes of name fields kept, the default bound of a request: they stay after their peer is gone. */
const MOST_KEPT_BYTES = 262_144
/** The name fields of the last request with many names, and their texts. */
let lastNames: { readonly fields: Buffer; readonly texts: readonly string[] } = { fields: Buffer.alloc(0), texts: [] }

/** The names from the one at `start` on. A peer repeats all of them in each ACK: many of them become text once. */
function namesFrom(bytes: Buffer, start: number): { readonly texts: string[]; readonly end: number } {
  const { fields, texts: known } = lastNames
  const knownEnd = start + fields.length
  const isWhole = known.length > 0 && knownEnd <= bytes.length
  if (isWhole && bytes.compare(fields, 0, fields.length, start, knownEnd) === 0)
    return { texts: known.slice(), end: knownEnd }
  const texts: string[] = []
  let end = start
  while (bytes[end] === TAGS.resourceNames) {
    const next = endOfShortText(bytes, end)
    if (Number.isNaN(next)) break
    texts.push(bytes.toString('utf8', end + 2, next))
    end = next
  }
  // Copies, since the message is released, and the caller may change its list.
  if (texts.length >= MANY_NAMES && end - start <= MOST_KEPT_BYTES)
    lastNames = { fields: Buffer.from(bytes.subarray(start, end)), texts: texts.slice() }
  return { texts, end }
}

function isSecretType(bytes: Buffer, start: number, end: number): boolean {
  if (end - start !== SECRET_TYPE_URL.length) return false
  for (let at = start; at < end; at++) if (bytes[at] !== SECRET_TYPE_URL.charCodeAt(at - start)) return false
  return true
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

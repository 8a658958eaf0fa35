/**
 * Reads requests that have only short texts, such as an ACK. A reader of protobuf, its view and its checks took a quarter of the
 * memory that a response allocates.
 */
import type { DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { SECRET_TYPE_URL } from './response-content.ts'

/** Tags of the texts of a DiscoveryRequest: their number, and wire type 2. */
const TAGS = { versionInfo: 0x0a, resourceNames: 0x1a, typeUrl: 0x22, responseNonce: 0x2a } as const

/** A request that has only texts of less than 128 bytes, and `undefined` for all other bytes. */
export function readTextRequest(bytes: Buffer): DiscoveryRequest | undefined {
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

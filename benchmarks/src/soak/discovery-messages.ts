/**
 * The few fields of SDS messages that a client needs, encoded by hand: nothing of Livery's own encoding is trusted here.
 * https://protobuf.dev/programming-guides/encoding/
 */

export const SECRET_TYPE_URL = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret'

/** One secret as a client sees it; PEM texts. */
export type ReceivedSecret =
  | { readonly kind: 'certificate'; readonly name: string; readonly chain: string; readonly privateKey: Buffer }
  | { readonly kind: 'roots'; readonly name: string; readonly pem: string }

interface ReceivedResponse {
  readonly version: string
  readonly nonce: string
  readonly secrets: readonly ReceivedSecret[]
}

/** A DiscoveryRequest for one name: the first one of a stream, or with `answered` the ACK of a response. */
export function discoveryRequest(
  name: string,
  answered?: { readonly version: string; readonly nonce: string },
): Buffer {
  return Buffer.concat([
    answered ? textField(1, answered.version) : field(2, textField(1, 'soak')),
    textField(3, name),
    textField(4, SECRET_TYPE_URL),
    answered ? textField(5, answered.nonce) : Buffer.alloc(0),
  ])
}

/** The first request of a stream, for several names. */
export function manyNamesRequest(names: readonly string[]): Buffer {
  return Buffer.concat([
    field(2, textField(1, 'soak')),
    ...names.map(name => textField(3, name)),
    textField(4, SECRET_TYPE_URL),
  ])
}

/** A NACK (error_detail of field 6) of a response that was never sent. */
export function nackOf(name: string): Buffer {
  return Buffer.concat([
    textField(3, name),
    textField(4, SECRET_TYPE_URL),
    textField(5, 'no-such-nonce'),
    field(6, textField(2, 'rejected')),
  ])
}

/** Throws an `Error` for bytes that are not a DiscoveryResponse with secrets. */
export function readResponse(bytes: Buffer): ReceivedResponse {
  let version = ''
  let nonce = ''
  const secrets: ReceivedSecret[] = []
  for (const [number, body] of fields(bytes)) {
    if (number === 1) version = body.toString()
    if (number === 5) nonce = body.toString()
    if (number === 2) secrets.push(readSecret(only(body, 2, 'the resource has no value')))
  }
  return { version, nonce, secrets }
}

function readSecret(bytes: Buffer): ReceivedSecret {
  const name = only(bytes, 1, 'a secret has no name').toString()
  const certificate = find(bytes, 2)
  if (certificate) {
    const chain = inline(only(certificate, 1, `${name} has no chain`), name).toString()
    return { kind: 'certificate', name, chain, privateKey: inline(only(certificate, 2, `${name} has no key`), name) }
  }
  const context = only(bytes, 4, `${name} is neither a certificate nor roots`)
  return { kind: 'roots', name, pem: inline(only(context, 1, `${name} has no roots`), name).toString() }
}

/** DataSource.inline_bytes. */
function inline(dataSource: Buffer, name: string): Buffer {
  return only(dataSource, 2, `${name} is not inline`)
}

function only(bytes: Buffer, number: number, problem: string): Buffer {
  const found = find(bytes, number)
  if (!found) throw new Error(`Cannot read the response: ${problem}`)
  return found
}

function find(bytes: Buffer, wanted: number): Buffer | undefined {
  for (const [number, body] of fields(bytes)) if (number === wanted) return body
  return undefined
}

/** The length-delimited fields, in order; numbers are skipped. */
function* fields(bytes: Buffer): Generator<readonly [number: number, body: Buffer]> {
  let at = 0
  const readVarint = () => {
    let value = 0
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes[at++]
      if (byte === undefined) throw new Error('Cannot read the response: it is cut off')
      value += (byte & 0x7f) * shift
      if (byte < 0x80) return value
    }
  }
  while (at < bytes.length) {
    const tag = readVarint()
    const kind = tag & 7
    const length = readVarint()
    if (kind === 0) continue
    if (kind !== 2 || at + length > bytes.length)
      throw new Error(`Cannot read the response: field kind ${kind} at ${at}`)
    yield [tag >>> 3, bytes.subarray(at, at + length)]
    at += length
  }
}

function textField(number: number, text: string): Buffer {
  return field(number, Buffer.from(text))
}

function field(number: number, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...varint(body.length)]), body])
}

function varint(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  return [...bytes, rest]
}

/** HTTP/2 frames by hand, for what no client library sends. */

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const
export const END_STREAM = 1
export const END_HEADERS = 4
export const PADDED = 8
/** The ACK flag of PING and SETTINGS. */
export const ACK = 1

export function rawFrame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** The preface of a client (RFC 9113, section 3.4). */
export const BEGIN = Buffer.concat([PREFACE, rawFrame(FRAME.settings, 0, 0, Buffer.alloc(0))])

/** A header block of literals that are not indexed: https://httpwg.org/specs/rfc7541.html#rfc.section.6.2.2 */
export function literalHeaders(...headers: readonly (readonly string[])[]): Buffer {
  return Buffer.concat(
    headers.map(([name = '', value = '']) => Buffer.concat([Buffer.from([0]), hpackText(name), hpackText(value)])),
  )
}

function hpackText(value: string): Buffer {
  const bytes = Buffer.from(value)
  const length = bytes.length < 127 ? [bytes.length] : [127]
  for (let rest = bytes.length - 127; rest >= 0; rest = rest < 128 ? -1 : rest >> 7)
    length.push(rest < 128 ? rest : (rest & 127) | 128)
  return Buffer.concat([Buffer.from(length), bytes])
}

export function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(value)
  return bytes
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export function grpcHeaders(path: string): Buffer {
  return literalHeaders(
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    [':authority', 'sds'],
    ['content-type', 'application/grpc'],
  )
}

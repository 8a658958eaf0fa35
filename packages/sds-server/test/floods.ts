/**
 * Every kind of HTTP/2 frame that a hostile peer can send, as often as it likes: the bytes of one connection, which are written at
 * once. RFC 9113 (frames), RFC 7541 (header fields).
 */
import {
  ACK,
  BEGIN,
  END_HEADERS,
  END_STREAM,
  FRAME,
  literalHeaders,
  PADDED,
  PREFACE,
  rawFrame,
  uint32,
} from './raw-http2.ts'

interface Flood {
  readonly name: string
  /** The bytes of one connection: its beginning, then the same again and again, about `bytes` in all. */
  connection(bytes: number): Buffer
}

const SDS = '/envoy.service.secret.v3.SecretDiscoveryService'
const STREAM_SECRETS = `${SDS}/StreamSecrets`
/** The default largest payload of a frame (SETTINGS_MAX_FRAME_SIZE). */
const FRAME_BYTES = 16_384
const EMPTY = Buffer.alloc(0)
/** `:method: GET`, one byte for a field of 42 bytes (RFC 7541, section 4.1). */
const INDEXED_FIELD = 0x82

/** A request in literals that are kept in the table, and the same in five bytes, which only hold their places there. */
function tabled(path: string): { readonly first: Buffer; readonly again: Buffer } {
  const kept = [[':path', path] as const, [':authority', 'sds'] as const, ['content-type', 'application/grpc'] as const]
  const literals = kept.map(([name, value]) =>
    Buffer.concat([Buffer.from([0x40]), literalHeaders([name, value]).subarray(1)]),
  )
  const fixed = Buffer.from([0x83, 0x86])
  return { first: Buffer.concat([fixed, ...literals]), again: Buffer.from([0x83, 0x86, 0xc0, 0xbf, 0xbe]) }
}

/** Repeats `unit` behind `begin`; `index` counts from 0. */
function repeat(begin: Buffer, bytes: number, unit: (index: number) => Buffer): Buffer {
  const parts = [begin]
  let length = begin.length
  for (let index = 0; length < bytes; index++) {
    const part = unit(index)
    parts.push(part)
    length += part.length
  }
  return Buffer.concat(parts, length)
}

/** The same frames again: they have no number. */
function repeatSame(begin: Buffer, bytes: number, unit: Buffer): Buffer {
  const times = Math.max(1, Math.ceil((bytes - begin.length) / unit.length))
  return Buffer.concat([begin, Buffer.alloc(times * unit.length, unit)])
}

/** A new stream for each unit; `then` is what follows its headers. */
function streams(path: string, flags: number, then: (id: number) => Buffer = () => EMPTY): Flood['connection'] {
  const { first, again } = tabled(path)
  const open = (index: number) => {
    const id = 2 * index + 1
    const headers = rawFrame(FRAME.headers, END_HEADERS | flags, id, index === 0 ? first : again)
    return Buffer.concat([headers, then(id)])
  }
  return bytes => repeat(BEGIN, bytes, open)
}

/** One open stream, and frames behind it. */
function behindStream(unit: Buffer, before: Buffer = EMPTY, path = STREAM_SECRETS): Flood['connection'] {
  const open = rawFrame(FRAME.headers, END_HEADERS, 1, tabled(path).first)
  return bytes => repeatSame(Buffer.concat([BEGIN, open, before]), bytes, unit)
}

function frames(unit: Buffer): Flood['connection'] {
  return bytes => repeatSame(BEGIN, bytes, unit)
}

/** Blocks of headers of one kind, each on its stream; `CONTINUATION` as far as nghttp2 takes it. */
function headerBlocks(block: Buffer, continuations: number): Flood['connection'] {
  return bytes =>
    repeat(BEGIN, bytes, index => {
      const id = 2 * index + 1
      const rest = Array.from({ length: continuations }, (_, of) =>
        rawFrame(FRAME.continuation, of === continuations - 1 ? END_HEADERS : 0, id, block),
      )
      return Buffer.concat([rawFrame(FRAME.headers, continuations === 0 ? END_HEADERS : 0, id, block), ...rest])
    })
}

const HALF_MESSAGE = rawFrame(FRAME.data, 0, 1, Buffer.from([0, 0, 3, 0, 0]))
const RST = (id: number) => rawFrame(FRAME.reset, 0, id, uint32(8))
const LITERALS = literalHeaders(...Array.from({ length: 1_000 }, (_, index) => [`x-${index}`, 'v'.repeat(8)]))
const LONG_LITERAL = literalHeaders([':path', 'p'.repeat(15_000)])
const STREAM_WINDOW = rawFrame(FRAME.windowUpdate, 0, 1, uint32(1))
const SESSION_WINDOW = rawFrame(FRAME.windowUpdate, 0, 0, uint32(1))
const PING = rawFrame(FRAME.ping, 0, 0, Buffer.alloc(8))
const CLOSED_WINDOW = rawFrame(FRAME.settings, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]))
const UNREAD = Buffer.from([0, 0, 0, 0, 8, 0x1a, 6, ...Buffer.from('ROOTCA')])

export const FLOODS: readonly Flood[] = [
  { name: 'streams', connection: streams(STREAM_SECRETS, 0) },
  { name: 'streams that end at once', connection: streams(STREAM_SECRETS, END_STREAM) },
  { name: 'fetches that end at once', connection: streams(`${SDS}/FetchSecrets`, END_STREAM) },
  { name: 'health checks that end at once', connection: streams('/grpc.health.v1.Health/Check', END_STREAM) },
  { name: 'streams of an unknown path', connection: streams('/unknown', 0) },
  { name: 'streams and their resets', connection: streams(STREAM_SECRETS, 0, RST) },
  {
    name: 'streams with a request each',
    connection: streams(STREAM_SECRETS, 0, id => rawFrame(FRAME.data, 0, id, UNREAD)),
  },
  {
    name: 'fetches',
    connection: streams(`${SDS}/FetchSecrets`, 0, id => rawFrame(FRAME.data, END_STREAM, id, UNREAD)),
  },
  {
    name: 'responses that are not read',
    connection: bytes => {
      const open = streams(STREAM_SECRETS, 0, id => rawFrame(FRAME.data, 0, id, UNREAD))(bytes)
      return Buffer.concat([PREFACE, CLOSED_WINDOW, open.subarray(BEGIN.length)])
    },
  },
  { name: 'indexed header fields', connection: headerBlocks(Buffer.alloc(FRAME_BYTES, INDEXED_FIELD), 0) },
  {
    name: 'indexed header fields in CONTINUATION',
    connection: headerBlocks(Buffer.alloc(FRAME_BYTES, INDEXED_FIELD), 8),
  },
  { name: 'indexed header fields in small blocks', connection: headerBlocks(Buffer.alloc(400, INDEXED_FIELD), 0) },
  { name: 'many header fields', connection: headerBlocks(LITERALS, 0) },
  { name: 'long header fields', connection: headerBlocks(LONG_LITERAL, 0) },
  {
    name: 'empty CONTINUATION',
    connection: bytes =>
      repeatSame(
        Buffer.concat([BEGIN, rawFrame(FRAME.headers, 0, 1, tabled(STREAM_SECRETS).first)]),
        bytes,
        rawFrame(FRAME.continuation, 0, 1, EMPTY),
      ),
  },
  {
    name: 'DATA of one byte in a message',
    connection: behindStream(rawFrame(FRAME.data, 0, 1, Buffer.alloc(1)), HALF_MESSAGE),
  },
  {
    name: 'DATA of one byte behind requests that wait',
    connection: bytes =>
      repeatSame(
        Buffer.concat([
          PREFACE,
          CLOSED_WINDOW,
          rawFrame(FRAME.headers, END_HEADERS, 1, tabled(STREAM_SECRETS).first),
          rawFrame(FRAME.data, 0, 1, Buffer.concat([UNREAD, UNREAD, UNREAD])),
        ]),
        bytes,
        rawFrame(FRAME.data, 0, 1, Buffer.alloc(1)),
      ),
  },
  {
    name: 'DATA of one byte in a fetch',
    connection: behindStream(rawFrame(FRAME.data, 0, 1, Buffer.alloc(1)), HALF_MESSAGE, `${SDS}/FetchSecrets`),
  },
  { name: 'DATA of no byte', connection: behindStream(rawFrame(FRAME.data, 0, 1, EMPTY), HALF_MESSAGE) },
  {
    name: 'DATA of one byte and 255 of padding',
    connection: behindStream(
      rawFrame(FRAME.data, PADDED, 1, Buffer.concat([Buffer.from([255]), Buffer.alloc(256)])),
      HALF_MESSAGE,
    ),
  },
  { name: 'empty messages', connection: behindStream(rawFrame(FRAME.data, 0, 1, Buffer.alloc(5 * 3_000))) },
  { name: 'empty messages, each in a frame', connection: behindStream(rawFrame(FRAME.data, 0, 1, Buffer.alloc(5))) },
  { name: 'PING', connection: frames(PING) },
  { name: 'PING, fewer than end the session', connection: () => repeatSame(BEGIN, 900 * PING.length, PING) },
  { name: 'PING that nobody asked for', connection: frames(rawFrame(FRAME.ping, ACK, 0, Buffer.alloc(8))) },
  { name: 'SETTINGS', connection: frames(rawFrame(FRAME.settings, 0, 0, EMPTY)) },
  { name: 'WINDOW_UPDATE of the connection', connection: frames(SESSION_WINDOW) },
  { name: 'WINDOW_UPDATE of a stream', connection: behindStream(STREAM_WINDOW) },
  { name: 'PRIORITY', connection: frames(rawFrame(FRAME.priority, 0, 1, Buffer.alloc(5, 1))) },
  { name: 'unknown frames', connection: frames(rawFrame(0xfa, 0, 0, EMPTY)) },
  { name: 'GOAWAY', connection: frames(rawFrame(FRAME.goAway, 0, 0, Buffer.alloc(8))) },
  { name: 'resets of streams that closed', connection: behindStream(RST(1), RST(1)) },
  { name: 'garbage', connection: bytes => Buffer.alloc(bytes, 'GET / HTTP/1.1\r\nhost: sds\r\n\r\n') },
  { name: 'half a preface', connection: () => PREFACE.subarray(0, 12) },
]

/** What grpc-js keeps to itself and Livery needs: every private field that is used, looked for when a server starts. */
import type { Http2Server, ServerHttp2Stream } from 'node:http2'
import { Duplex } from 'node:stream'
import type { Server } from '@grpc/grpc-js'

/** `x-forwarded-for`, tokens in `initial_metadata`: Envoy sends about ten headers in half a kilobyte. */
const MAX_HEADERS = { maxHeaderListPairs: 64, maxHeaderListSize: 16_384 }

/** The HTTP/2 stream of a call; `undefined` if it is not there any more, or the call is another's. */
export function http2StreamOf(call: object): ServerHttp2Stream | undefined {
  const stream = 'stream' in call ? call.stream : undefined
  return isHttp2Stream(stream) ? stream : undefined
}

function isHttp2Stream(stream: unknown): stream is ServerHttp2Stream {
  return stream instanceof Duplex && 'rstCode' in stream
}

/** Gives each DATA frame of a call to `decoder`, in place of the call's own. */
export function replaceDecoder(call: object, decoder: { write(data: Buffer): Buffer[] }): void {
  if (!('decoder' in call)) throw new Error('Cannot bound what a call holds: this grpc-js has no decoder to replace')
  Reflect.set(call, 'decoder', decoder)
}

/** A call holds its headers while it is open, and nothing reads them. */
export function dropMetadata(call: object): void {
  Reflect.set(call, 'metadata', undefined)
}

/**
 * Counts a stream that grpc-js never sees, so that its connection is not idle until the stream closes. `undefined` where
 * grpc-js counts in another way: then it has to see every stream.
 */
export function streamCounterOf(server: Server): ((stream: ServerHttp2Stream) => void) | undefined {
  const count: unknown = Reflect.get(server, 'onStreamOpened')
  if (typeof count !== 'function' || count.length !== 1) return undefined
  return stream => void Reflect.apply(count, server, [stream])
}

/** Bounds the headers of a request. Call it before the server has an HTTP/2 server. */
export function limitHeaders(server: Server): void {
  const options: unknown = Reflect.get(server, 'commonServerOptions')
  if (typeof options !== 'object' || options === null) throw unknownGrpc('options')
  const { maxHeaderListPairs, maxHeaderListSize } = MAX_HEADERS
  const settings = 'settings' in options && typeof options.settings === 'object' ? options.settings : {}
  Object.assign(options, { maxHeaderListPairs, settings: { ...settings, maxHeaderListSize } })
}

/** The HTTP/2 server of a connection injector. */
export function http2ServerOf(server: Server): Http2Server {
  const servers: unknown = Reflect.get(server, 'http2Servers')
  const [http2] = servers instanceof Map ? servers.keys() : []
  if (!http2) throw unknownGrpc('server')
  return http2
}

function unknownGrpc(what: string): Error {
  return new Error(`Cannot bound what a peer sends: this grpc-js keeps its HTTP/2 ${what} elsewhere`)
}

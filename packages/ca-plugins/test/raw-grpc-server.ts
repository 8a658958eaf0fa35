/** An HTTP/2 server without gRPC under it, so that a test decides each frame of an answer. */
import {
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type Settings,
} from 'node:http2'
import { listening, portOf } from '@livery/test-support'

export type StreamHandler = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void

export class RawGrpcServer implements AsyncDisposable {
  readonly sessions: ServerHttp2Session[] = []
  handle: StreamHandler
  readonly #server: Http2Server

  private constructor(handle: StreamHandler, settings: Settings) {
    this.handle = handle
    this.#server = createServer({ settings })
      .on('session', session => this.sessions.push(session))
      .on('stream', (stream, headers) => {
        stream.on('error', () => {})
        this.handle(stream, headers)
      })
  }

  /** On 127.0.0.1 without TLS. */
  static async start(handle: StreamHandler, settings: Settings = {}): Promise<RawGrpcServer> {
    const server = new RawGrpcServer(handle, settings)
    await listening(server.#server)
    return server
  }

  get port(): number {
    return portOf(this.#server)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    for (const session of this.sessions) session.destroy()
    await closed
  }
}

/** A message as gRPC frames it. */
export function framed(message: Uint8Array, flag = 0): Buffer {
  const prefix = Buffer.alloc(5)
  prefix[0] = flag
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}

/** Answers with this message and these trailers. */
export function answer(
  stream: ServerHttp2Stream,
  message: Uint8Array = Buffer.from('answer'),
  trailers: Readonly<Record<string, string>> = { 'grpc-status': '0' },
): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  stream.end(message.length > 0 ? framed(message) : message)
}

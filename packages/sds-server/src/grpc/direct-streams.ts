/** Opens the streams of SDS and of the Workload API on HTTP/2 itself: grpc-js serves the other calls, and the connection. */
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import type { Server } from '@grpc/grpc-js'
import type { Clock } from '@livery/core'
import { streamCounterOf } from './grpc-js-internals.ts'
import { Http2Call } from './http2-call.ts'
import type { CallOpener } from './intercepted-call.ts'

/** As grpc-js has it, which answers other types with 415. */
const CONTENT_TYPE = 'application/grpc'

export interface DirectStreamsOptions {
  readonly server: Server
  readonly clock: Clock
  /** `undefined` for a path that grpc-js serves. */
  openerOf(path: string): CallOpener | undefined
}

export class DirectStreams {
  readonly #options: DirectStreamsOptions
  readonly #count: ((stream: ServerHttp2Stream) => void) | undefined

  /** Opens none where `LIVERY_SDS_TRANSPORT` is `grpc-js`, or grpc-js has to see every stream. */
  constructor(options: DirectStreamsOptions) {
    this.#options = options
    const isOff = process.env['LIVERY_SDS_TRANSPORT'] === 'grpc-js'
    this.#count = isOff ? undefined : streamCounterOf(options.server)
  }

  /** Opens a stream that is neither closed nor destroyed, or returns `false`: then grpc-js has to. */
  open(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: string): boolean {
    if (!this.#count || !headers['content-type']?.startsWith(CONTENT_TYPE)) return false
    const { openerOf, clock } = this.#options
    const serve = openerOf(headers[':path'] ?? '')
    if (!serve) return false
    this.#count(stream)
    serve(new Http2Call(stream, headers, peer, clock))
    return true
  }
}

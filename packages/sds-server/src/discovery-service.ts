/** The three methods of `envoy.service.secret.v3.SecretDiscoveryService` on one socket. */
import {
  type Server,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js'
import { CallLimit, countedCall } from './call-limit.ts'
import type { Connection } from './connection-gate.ts'
import { DeltaStream } from './delta-stream.ts'
import { type Answer, DiscoveryCall, type DiscoveryCallOptions } from './discovery-call.ts'
import type { DiscoveryStream, StreamContext, StreamReport } from './discovery-protocol.ts'
import { refuseCall } from './end-call.ts'
import { escapePeerName } from './escape-peer-name.ts'
import { fetchSecrets } from './fetch-secrets.ts'
import type { DiscoveryRequest } from './gen/envoy/service/discovery/v3/discovery.ts'
import { toStatusError } from './grpc-status.ts'
import { describePeer, toLedgerEvent } from './report-to-ledger.ts'
import { type Decoded, decodeDeltaRequest, decodeDiscoveryRequest } from './request-codec.ts'
import type { ResponseFrame } from './response-frame.ts'
import type { SdsContext } from './sds-context.ts'
import type { SdsMethod, StreamInfo } from './sds-event.ts'
import type { ResponseEncoder } from './secret-encoding.ts'
import { sendFrame } from './send-frame.ts'
import { SotwStream } from './sotw-stream.ts'
import { StreamRefusal } from './stream-refusal.ts'

export const SDS_SERVICE = 'envoy.service.secret.v3.SecretDiscoveryService'

const STREAM_SECRETS = `/${SDS_SERVICE}/StreamSecrets`
const DELTA_SECRETS = `/${SDS_SERVICE}/DeltaSecrets`
const FETCH_SECRETS = `/${SDS_SERVICE}/FetchSecrets`

/** Health checks have room of their own, so that a socket full of streams still answers them, and they never fill it. */
const MAX_HEALTH_CALLS = 1_000

export interface DiscoveryServiceOptions {
  readonly context: SdsContext
  readonly maxStreams: number
  readonly maxNames: number
  connectionOf(peer: string): Connection | undefined
}

interface OpenStream {
  info(): StreamInfo
  review(): void
  refuse(error: unknown): void
}

export class DiscoveryService {
  readonly #options: DiscoveryServiceOptions
  /** Those that are listed: a call of FetchSecrets from its message on. */
  readonly #open = new Set<OpenStream>()
  readonly #calls: CallLimit
  readonly #healthCalls = new CallLimit(MAX_HEALTH_CALLS)

  constructor(options: DiscoveryServiceOptions) {
    this.#options = options
    this.#calls = new CallLimit(options.maxStreams)
  }

  /** Open calls of all three methods. */
  get size(): number {
    return this.#calls.size
  }

  register(server: Server): void {
    // Called only where a frame cannot be written to the HTTP/2 stream.
    const serialize = (frame: ResponseFrame) => frame.message
    const fetch = this.#fetch.bind(this)
    server.register(STREAM_SECRETS, neverCalled, serialize, decodeDiscoveryRequest, 'bidi')
    server.register(DELTA_SECRETS, neverCalled, serialize, decodeDeltaRequest, 'bidi')
    server.register(FETCH_SECRETS, fetch, serialize, decodeDiscoveryRequest, 'unary')
  }

  /** The server has to be made with it: it takes the streams, and counts the other calls, which go on to their handlers. */
  interceptor(): ServerInterceptor {
    const { sotw, delta } = this.#options.context
    const openers = new Map([
      [STREAM_SECRETS, this.#opener('StreamSecrets', sotw, context => new SotwStream(context))],
      [DELTA_SECRETS, this.#opener('DeltaSecrets', delta, context => new DeltaStream(context))],
    ])
    return ({ path }, call) => {
      const open = openers.get(path)
      if (open) return new TakenCall(call, open)
      if (path === FETCH_SECRETS) {
        const counted = countedCall(call, this.#calls, each => this.#refuse(each, 'FetchSecrets'))
        return new FrameCall(counted, call)
      }
      return countedCall(call, this.#healthCalls, refuseHealthCall)
    }
  }

  streams(): readonly StreamInfo[] {
    return [...this.#open].map(stream => stream.info())
  }

  /** What callers may have was decided anew. */
  review(): void {
    for (const stream of this.#open) stream.review()
  }

  /** Ends every stream with UNAVAILABLE, upon which its peer looks for the next server. */
  endStreams(): void {
    for (const stream of [...this.#open]) stream.refuse(new StreamRefusal('unavailable', 'the agent is shutting down'))
  }

  #opener<Request extends Answer>(
    method: SdsMethod,
    encoder: ResponseEncoder,
    createStream: (context: StreamContext) => DiscoveryStream<Request>,
  ): Opener {
    const { context, maxNames } = this.#options
    const options: DiscoveryCallOptions<Request> = {
      method,
      maxNames,
      encoder,
      context,
      createStream,
      report: (report, info, peer) => this.#report(report, info, peer),
      onClose: call => void this.#open.delete(call),
      onGone: () => this.#calls.leave(),
    }
    return call => {
      const connection = this.#options.connectionOf(call.getPeer())
      if (!connection || !this.#calls.enter()) {
        this.#refuse(call, method)
        return
      }
      const stream = new DiscoveryCall(call, connection, options)
      this.#open.add(stream)
      call.start(stream)
      // grpc-js tells nothing, not even the end, of a call that it finds destroyed when it starts.
      if (!stream.isStarted) stream.onCancel()
    }
  }

  #fetch(
    call: ServerUnaryCall<Decoded<DiscoveryRequest>, ResponseFrame>,
    callback: sendUnaryData<ResponseFrame>,
  ): void {
    const connection = this.#options.connectionOf(call.getPeer())
    if (!connection) {
      callback(toStatusError(connectionCloses()))
      return
    }
    const cancellation = new AbortController()
    call.on('cancelled', () => cancellation.abort())
    this.#answer(call.request, connection, cancellation).then(
      answer => callback(null, answer),
      error => callback(toStatusError(error)),
    )
  }

  /** Listed as a stream as long as it waits. */
  async #answer(
    decoded: Decoded<DiscoveryRequest>,
    connection: Connection,
    cancellation: AbortController,
  ): Promise<ResponseFrame> {
    const { context, maxNames } = this.#options
    if (decoded.kind === 'malformed') throw new StreamRefusal('invalid-argument', 'the message is no discovery request')
    const { request } = decoded
    const info: StreamInfo = {
      id: context.nextId(),
      method: 'FetchSecrets',
      connection: connection.info,
      node: escapePeerName(request.node?.id ?? ''),
      names: request.resourceNames.length,
      openedAt: context.clock.now(),
    }
    // It is answered once, with what may be had then.
    const open: OpenStream = { info: () => info, review() {}, refuse: reason => cancellation.abort(reason) }
    this.#open.add(open)
    context.observe({ kind: 'stream-opened', stream: info })
    let ended = { code: 0, details: '' }
    try {
      const { sotw: encoder, clock, fetchWaitMs: waitMs } = context
      const peer = describePeer(info)
      const report = (each: StreamReport) => this.#report(each, info, peer)
      const options = {
        connection,
        encoder,
        maxNames,
        clock,
        waitMs,
        signal: cancellation.signal,
        report,
      }
      return await fetchSecrets(request, options)
    } catch (error) {
      ended = toStatusError(error)
      if (!(error instanceof StreamRefusal)) context.observe({ kind: 'stream-failed', stream: info, error })
      throw error
    } finally {
      this.#open.delete(open)
      context.observe({ kind: 'stream-closed', stream: info, status: ended.code, details: ended.details })
    }
  }

  /** For want of room, or of its connection. */
  #refuse(call: ServerInterceptingCallInterface, method: SdsMethod): void {
    const connection = this.#options.connectionOf(call.getPeer())
    if (connection) this.#options.context.observe({ kind: 'stream-refused', connection: connection.info, method })
    refuseCall(call, connection ? noRoom(`${this.#options.maxStreams} streams`) : connectionCloses())
  }

  #report(report: StreamReport, stream: StreamInfo, peer: string): void {
    const { source, observe } = this.#options.context
    if (report.kind !== 'stale') source.record(report.key, toLedgerEvent(report, peer))
    observe({ kind: 'stream-report', stream, report })
  }
}

function refuseHealthCall(call: ServerInterceptingCallInterface): void {
  refuseCall(call, noRoom(`${MAX_HEALTH_CALLS} health checks`))
}

function noRoom(what: string): StreamRefusal {
  return new StreamRefusal('resource-exhausted', `this socket serves ${what} at once, and has them`)
}

function connectionCloses(): StreamRefusal {
  return new StreamRefusal('unavailable', 'the connection is closing')
}

type Opener = (call: ServerInterceptingCallInterface) => void

/** A call that its opener listens to, in place of the handler that is registered for its method. */
class TakenCall extends ServerInterceptingCall {
  readonly #call: ServerInterceptingCallInterface
  readonly #open: Opener

  constructor(call: ServerInterceptingCallInterface, open: Opener) {
    super(call)
    this.#call = call
    this.#open = open
  }

  override start(): void {
    this.#open(this.#call)
  }
}

/** A call whose handler answers with a frame, which is written past grpc-js. */
class FrameCall extends ServerInterceptingCall {
  readonly #call: ServerInterceptingCallInterface

  constructor(next: ServerInterceptingCallInterface, call: ServerInterceptingCallInterface) {
    super(next)
    this.#call = call
  }

  override sendMessage(frame: ResponseFrame, onWritten: () => void): void {
    sendFrame(this.#call, frame, onWritten)
  }
}

/** grpc-js needs a handler to know a method. */
function neverCalled(): void {}

/** The three methods of `envoy.service.secret.v3.SecretDiscoveryService` on one socket. */
import {
  type Server,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js'
import type { Connection } from '../access/connection.ts'
import type { CallBound, CallerBudget, SocketRoom } from '../budget/caller-budget.ts'
import type { DeadlineQueue } from '../budget/deadline-queue.ts'
import { describePeer } from '../events/describe-peer.ts'
import type { SdsMethod, StreamInfo } from '../events/sds-event.ts'
import type { DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { DeltaStream } from '../protocol/delta-stream.ts'
import type { DiscoveryStream, StreamContext, StreamReport } from '../protocol/discovery-protocol.ts'
import { escapePeerName } from '../protocol/escape-peer-name.ts'
import { type Decoded, decodeDeltaRequest, decodeDiscoveryRequest, heapBytes } from '../protocol/request-codec.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import type { ResponseEncoder } from '../protocol/secret-encoding.ts'
import { SotwStream } from '../protocol/sotw-stream.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { ServiceContext } from './call-context.ts'
import { countedCall, dropMetadata } from './counted-call.ts'
import { refuseCall } from './end-call.ts'
import { fetchSecrets } from './fetch-secrets.ts'
import { toStatusError } from './grpc-status.ts'
import { type IncomingOptions, IncomingRequests, UnaryRequest } from './incoming-requests.ts'
import { http2StreamOf, sendFrame } from './send-frame.ts'
import { type Answer, StreamCall, type StreamCallOptions } from './stream-call.ts'

export const SDS_SERVICE = 'envoy.service.secret.v3.SecretDiscoveryService'

const STREAM_SECRETS = `/${SDS_SERVICE}/StreamSecrets`
const DELTA_SECRETS = `/${SDS_SERVICE}/DeltaSecrets`
const FETCH_SECRETS = `/${SDS_SERVICE}/FetchSecrets`
export const SDS_PATHS = [STREAM_SECRETS, DELTA_SECRETS, FETCH_SECRETS]

export interface DiscoveryServiceOptions {
  readonly context: ServiceContext
  readonly room: SocketRoom
  readonly maxNames: number
  readonly messageBytes: number
  /** The deadlines of requests. */
  readonly deadlines: DeadlineQueue
  connectionOf(peer: string): Connection | undefined
}

interface OpenStream {
  /** Who its caller is, where that is known. */
  readonly subject: string | undefined
  info(): StreamInfo
  review(): void
  refuse(error: unknown): void
}

export class DiscoveryService {
  readonly #options: DiscoveryServiceOptions
  /** The listed calls; one of FetchSecrets is listed from its message on. */
  readonly #open = new Set<OpenStream>()

  constructor(options: DiscoveryServiceOptions) {
    this.#options = options
  }

  register(server: Server): void {
    // grpc-js calls it only where a frame cannot be written to the HTTP/2 stream.
    const serialize = (frame: ResponseFrame) => frame.message
    const fetch = this.#fetch.bind(this)
    server.register(STREAM_SECRETS, neverCalled, serialize, decodeDiscoveryRequest, 'bidi')
    server.register(DELTA_SECRETS, neverCalled, serialize, decodeDeltaRequest, 'bidi')
    server.register(FETCH_SECRETS, fetch, serialize, decodeDiscoveryRequest, 'unary')
  }

  /** Create the server with it: it handles the streams, and counts the other calls on their way to their handlers. */
  interceptor(): ServerInterceptor {
    const { sotw, delta } = this.#options.context
    const openers = new Map([
      [STREAM_SECRETS, this.#opener('StreamSecrets', sotw, decodeDiscoveryRequest, each => new SotwStream(each))],
      [DELTA_SECRETS, this.#opener('DeltaSecrets', delta, decodeDeltaRequest, each => new DeltaStream(each))],
    ])
    return ({ path }, call) => {
      const open = openers.get(path)
      if (open) return new InterceptedCall(call, open)
      if (path === FETCH_SECRETS) return new FrameCall(this.#unaryCall(call, 'fetch'), call)
      return this.#unaryCall(call, 'health')
    }
  }

  streams(): readonly StreamInfo[] {
    return [...this.#open].map(stream => stream.info())
  }

  /** Call after the permissions of callers changed, or of one subject. */
  review(subject?: string): void {
    for (const stream of this.#open) if (subject === undefined || stream.subject === subject) stream.review()
  }

  /** Ends every stream with UNAVAILABLE, so that its peer reconnects. */
  endStreams(): void {
    for (const stream of [...this.#open]) stream.refuse(new StreamRefusal('unavailable', 'the agent is shutting down'))
  }

  #opener<Request extends Answer>(
    method: SdsMethod,
    encoder: ResponseEncoder,
    decode: (message: Buffer) => Decoded<Request>,
    createStream: (context: StreamContext) => DiscoveryStream<Request>,
  ): Opener {
    const { context, maxNames } = this.#options
    const options: StreamCallOptions<Request> = {
      method,
      maxNames,
      encoder,
      context,
      createStream,
      report: (report, info, peer) => this.#report(report, info, peer),
      onClose: call => void this.#open.delete(call),
    }
    return call => {
      const connection = this.#options.connectionOf(call.getPeer())
      const bound = connection?.budget.openStream()
      if (!connection || bound) {
        this.#refuse(call, method, bound)
        return
      }
      this.#take(call, connection, options, decode)
    }
  }

  #take<Request extends Answer>(
    call: ServerInterceptingCallInterface,
    connection: Connection,
    options: StreamCallOptions<Request>,
    decode: (message: Buffer) => Decoded<Request>,
  ): void {
    const requests = new IncomingRequests(call, {
      ...this.#incoming(connection),
      onMessage: message => stream.onReceiveMessage(decode(message)),
      onHalfClose: () => stream.onReceiveHalfClose(),
      onRefusal: error => stream.refuse(error),
    })
    const transport = {
      startRead: () => requests.startRead(),
      sendMetadata: call.sendMetadata.bind(call),
      sendMessage: call.sendMessage.bind(call),
      sendStatus: call.sendStatus.bind(call),
      stream: http2StreamOf(call),
    }
    const stream = new StreamCall(transport, connection, options)
    this.#open.add(stream)
    call.start({
      onReceiveMetadata() {
        dropMetadata(call)
        stream.onReceiveMetadata()
      },
      onReceiveMessage: () => {},
      onReceiveHalfClose: () => requests.endOfStream(),
      onCancel: () => this.#end(stream, requests, connection),
    })
    // grpc-js reports nothing, not even the end, of a call whose stream is destroyed when it starts.
    if (!stream.isStarted) this.#end(stream, requests, connection)
  }

  #end(stream: StreamCall<Answer>, requests: IncomingRequests, connection: Connection): void {
    if (stream.isUnanswered) this.#fault(connection)
    requests.stop()
    stream.onCancel()
  }

  #fault(connection: Connection): void {
    if (!connection.budget.addFaults(this.#options.context.clock.now(), 1)) connection.close()
  }

  #incoming(connection: Connection): Pick<IncomingOptions, 'connection' | 'deadlines' | 'maxBytes'> {
    return { connection, deadlines: this.#options.deadlines, maxBytes: this.#options.messageBytes }
  }

  /** A call that a handler of grpc-js answers: FetchSecrets, a health check or a health watch. */
  #unaryCall(call: ServerInterceptingCallInterface, kind: 'fetch' | 'health'): ServerInterceptingCall {
    let connection: Connection | undefined
    let request: UnaryRequest | undefined
    return countedCall(call, {
      enter: () => {
        connection = this.#options.connectionOf(call.getPeer())
        const budget = connection?.budget
        const bound = kind === 'fetch' ? budget?.openFetch() : budget?.openHealthCall()
        if (!connection || bound) {
          this.#refuse(call, kind === 'fetch' ? 'FetchSecrets' : 'Health', bound)
          return false
        }
        const onRefusal = (error: unknown) => call.sendStatus(toStatusError(error))
        request = new UnaryRequest(call, { ...this.#incoming(connection), onRefusal })
        return true
      },
      onEnd: () => {
        if (connection && !request?.isWhole) this.#fault(connection)
        request?.stop()
      },
      leave: () => (kind === 'fetch' ? connection?.budget.closeStream() : connection?.budget.closeHealthCall()),
    })
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

  /** Lists the call while it waits. */
  async #answer(
    decoded: Decoded<DiscoveryRequest>,
    connection: Connection,
    cancellation: AbortController,
  ): Promise<ResponseFrame> {
    const { context, maxNames } = this.#options
    if (decoded.kind === 'malformed')
      throw new StreamRefusal('invalid-argument', 'the message is not a discovery request')
    const { request } = decoded
    const bytes = heapBytes(request)
    connection.budget.chargeOrRefuse(bytes, 'more fetches')
    const info: StreamInfo = {
      id: context.nextId(),
      method: 'FetchSecrets',
      connection: connection.info,
      node: escapePeerName(request.node?.id ?? ''),
      names: request.resourceNames.length,
      openedAt: context.clock.now(),
    }
    // It is answered once, by the rules of that moment.
    const { subject } = connection.info
    const refuse = (reason: unknown) => cancellation.abort(reason)
    const open: OpenStream = { subject, info: () => info, review() {}, refuse }
    this.#open.add(open)
    context.events.emit({ kind: 'stream-opened', stream: info })
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
      if (!(error instanceof StreamRefusal)) context.events.emit({ kind: 'stream-failed', stream: info, error })
      throw error
    } finally {
      connection.budget.release(bytes)
      this.#open.delete(open)
      context.events.emit({ kind: 'stream-closed', stream: info, status: ended.code, details: ended.details })
    }
  }

  /** Refuses a call that finds no room, or whose connection closes. */
  #refuse(call: ServerInterceptingCallInterface, method: SdsMethod | 'Health', bound: CallBound | undefined): void {
    const connection = this.#options.connectionOf(call.getPeer())
    if (!connection || !bound) {
      refuseCall(call, connectionCloses())
      return
    }
    const what = method === 'Health' ? 'health checks' : 'streams'
    if (method !== 'Health')
      this.#options.context.events.emit({ kind: 'stream-refused', connection: connection.info, method, bound })
    this.#fault(connection)
    refuseCall(call, noRoom(what, bound, connection.budget, this.#options.room))
  }

  #report(report: StreamReport, stream: StreamInfo, peer: string): void {
    this.#options.context.events.emit({ kind: 'stream-report', stream, report, peer })
  }
}

function noRoom(
  what: 'streams' | 'health checks',
  bound: CallBound,
  { account }: CallerBudget,
  room: SocketRoom,
): StreamRefusal {
  const { most } = what === 'streams' ? room.streams : room.healthCalls
  const who = `this caller (${account.key})`
  const why = {
    socket: `this socket serves at most ${most} ${what} at once, and ${who} holds its share of them`,
    caller: `${who} has reached its limits: see limits.perCaller`,
    process: `this process has no room left, and ${who} holds its share of it`,
    rate: `${who} sends too many requests: see limits.perCaller.requestsPerSecond`,
  }
  return new StreamRefusal('resource-exhausted', why[bound])
}

function connectionCloses(): StreamRefusal {
  return new StreamRefusal('unavailable', 'the connection is closing')
}

type Opener = (call: ServerInterceptingCallInterface) => void

/** A call that its opener handles, in place of the handler registered for its method. */
class InterceptedCall extends ServerInterceptingCall {
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

/** A call whose handler answers with a frame, which bypasses the encoding of grpc-js. */
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

/** grpc-js needs a handler for each method. */
function neverCalled(): void {}

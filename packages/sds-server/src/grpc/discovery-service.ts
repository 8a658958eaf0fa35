/** The three methods of `envoy.service.secret.v3.SecretDiscoveryService` on one socket. */
import {
  type Server,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js'
import type { Connection } from '../access/connection.ts'
import { describePeer } from '../events/describe-peer.ts'
import type { StreamInfo } from '../events/sds-event.ts'
import type { DeltaDiscoveryRequest, DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { DeltaStream } from '../protocol/delta-stream.ts'
import type { DiscoveryMessage } from '../protocol/discovery-message.ts'
import type { StreamReport } from '../protocol/discovery-protocol.ts'
import { escapePeerName } from '../protocol/escape-peer-name.ts'
import { type Decoded, decodeDeltaRequest, decodeDiscoveryRequest, heapBytes } from '../protocol/request-codec.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { SotwStream } from '../protocol/sotw-stream.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { ServiceContext } from './call-context.ts'
import { countedCall } from './counted-call.ts'
import { fetchSecrets } from './fetch-secrets.ts'
import { toStatusError } from './grpc-status.ts'
import { type CallOpener, InterceptedCall, neverCalled } from './intercepted-call.ts'
import { sendFrame } from './send-frame.ts'
import { connectionCloses, type OpenStream, type SocketCalls, type StreamMethod } from './socket-calls.ts'
import { UnaryRequest } from './unary-request.ts'

export const SDS_SERVICE = 'envoy.service.secret.v3.SecretDiscoveryService'

const STREAM_SECRETS = `/${SDS_SERVICE}/StreamSecrets`
const DELTA_SECRETS = `/${SDS_SERVICE}/DeltaSecrets`
const FETCH_SECRETS = `/${SDS_SERVICE}/FetchSecrets`
export const SDS_PATHS = [STREAM_SECRETS, DELTA_SECRETS, FETCH_SECRETS]

export interface DiscoveryServiceOptions {
  readonly context: ServiceContext
  readonly calls: SocketCalls
  readonly maxNames: number
}

export class DiscoveryService {
  readonly #options: DiscoveryServiceOptions
  readonly #openers: ReadonlyMap<string, CallOpener>

  constructor(options: DiscoveryServiceOptions) {
    this.#options = options
    const { context, maxNames, calls } = options
    const { sotw, delta, refusedNames } = context
    const sotwMethod: StreamMethod<DiscoveryRequest, DiscoveryMessage> = {
      method: 'StreamSecrets',
      requestName: 'discovery request',
      maxNames,
      context,
      decode: decodeDiscoveryRequest,
      createStream: each => new SotwStream(each, refusedNames),
      encodeMessage: message => sotw.encodeMessage(message),
    }
    const deltaMethod: StreamMethod<DeltaDiscoveryRequest, DiscoveryMessage> = {
      method: 'DeltaSecrets',
      requestName: 'discovery request',
      maxNames,
      context,
      decode: decodeDeltaRequest,
      createStream: each => new DeltaStream(each),
      encodeMessage: message => delta.encodeMessage(message),
    }
    this.#openers = new Map([
      [STREAM_SECRETS, call => calls.serve(call, sotwMethod)],
      [DELTA_SECRETS, call => calls.serve(call, deltaMethod)],
    ])
  }

  register(server: Server): void {
    // grpc-js calls it only where a frame cannot be written to the HTTP/2 stream.
    const serialize = (frame: ResponseFrame) => frame.message
    const fetch = this.#fetch.bind(this)
    server.register(STREAM_SECRETS, neverCalled, serialize, decodeDiscoveryRequest, 'bidi')
    server.register(DELTA_SECRETS, neverCalled, serialize, decodeDeltaRequest, 'bidi')
    server.register(FETCH_SECRETS, fetch, serialize, decodeDiscoveryRequest, 'unary')
  }

  /** `undefined` for a method whose calls are no streams, and for the path of another service. */
  openerOf(path: string): CallOpener | undefined {
    return this.#openers.get(path)
  }

  /** Handles the streams, and counts the other calls on their way to their handlers, those of the health service, too. */
  intercept(path: string, call: ServerInterceptingCallInterface): ServerInterceptingCall {
    const open = this.openerOf(path)
    if (open) return new InterceptedCall(call, open)
    if (path === FETCH_SECRETS) return new FrameCall(this.#unaryCall(call, 'fetch'), call, this.#options.calls)
    return this.#unaryCall(call, 'health')
  }

  /** A call that a handler of grpc-js answers: FetchSecrets, a health check or a health watch. */
  #unaryCall(call: ServerInterceptingCallInterface, kind: 'fetch' | 'health'): ServerInterceptingCall {
    const { calls } = this.#options
    let connection: Connection | undefined
    let request: UnaryRequest | undefined
    return countedCall(call, {
      enter: () => {
        connection = calls.connectionOf(call.getPeer())
        const budget = connection?.budget
        const bound = kind === 'fetch' ? budget?.openFetch() : budget?.openHealthCall()
        if (!connection || bound) {
          calls.refuse(call, kind === 'fetch' ? 'FetchSecrets' : 'Health', bound)
          return false
        }
        const onRefusal = (error: unknown) => call.sendStatus(toStatusError(error))
        request = new UnaryRequest(call, { ...calls.incoming(connection), onRefusal })
        return true
      },
      onEnd: () => {
        if (connection && !request?.isWhole) calls.fault(connection)
        request?.stop()
      },
      leave: () => (kind === 'fetch' ? connection?.budget.closeFetch() : connection?.budget.closeHealthCall()),
    })
  }

  #fetch(
    call: ServerUnaryCall<Decoded<DiscoveryRequest>, ResponseFrame>,
    callback: sendUnaryData<ResponseFrame>,
  ): void {
    const connection = this.#options.calls.connectionOf(call.getPeer())
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
    const { context, maxNames, calls } = this.#options
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
    const open: OpenStream = { subject, info: () => info, subscribed: () => [], review() {}, refuse }
    calls.add(open)
    context.events.emit({ kind: 'stream-opened', stream: info })
    let ended = { code: 0, details: '' }
    try {
      const { sotw: encoder, clock, fetchWaitMs: waitMs } = context
      const peer = describePeer(info)
      const report = (each: StreamReport) => calls.report(each, info, peer)
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
      calls.delete(open)
      context.events.emit({ kind: 'stream-closed', stream: info, status: ended.code, details: ended.details })
    }
  }
}

/** A call whose handler answers with a frame, which bypasses the encoding of grpc-js. */
class FrameCall extends ServerInterceptingCall {
  readonly #call: ServerInterceptingCallInterface
  readonly #calls: SocketCalls

  constructor(next: ServerInterceptingCallInterface, call: ServerInterceptingCallInterface, calls: SocketCalls) {
    super(next)
    this.#call = call
    this.#calls = calls
  }

  override sendMessage(frame: ResponseFrame, onWritten: () => void): void {
    const connection = this.#calls.connectionOf(this.#call.getPeer())
    // It closes: nothing more is sent.
    if (!connection) frame.release(false)
    else sendFrame(this.#call, frame, connection.unsent, onWritten)
  }
}

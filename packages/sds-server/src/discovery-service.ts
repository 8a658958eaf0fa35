/** The three methods of `envoy.service.secret.v3.SecretDiscoveryService` on one socket. */
import {
  type Server,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js'
import type { Connection } from './connection-gate.ts'
import { DeltaStream } from './delta-stream.ts'
import { type Answer, DiscoveryCall, type DiscoveryCallOptions } from './discovery-call.ts'
import type { DiscoveryStream, StreamContext, StreamReport } from './discovery-protocol.ts'
import { escapePeerName } from './escape-peer-name.ts'
import { fetchSecrets } from './fetch-secrets.ts'
import type { DiscoveryRequest } from './gen/envoy/service/discovery/v3/discovery.ts'
import { toStatusError } from './grpc-status.ts'
import { describePeer, toLedgerEvent } from './report-to-ledger.ts'
import { type Decoded, decodeDeltaRequest, decodeDiscoveryRequest } from './request-codec.ts'
import type { SdsContext } from './sds-context.ts'
import type { SdsMethod, StreamInfo } from './sds-event.ts'
import type { ResponseEncoder } from './secret-encoding.ts'
import { SotwStream } from './sotw-stream.ts'
import { StreamRefusal } from './stream-refusal.ts'

export const SDS_SERVICE = 'envoy.service.secret.v3.SecretDiscoveryService'

const STREAM_SECRETS = `/${SDS_SERVICE}/StreamSecrets`
const DELTA_SECRETS = `/${SDS_SERVICE}/DeltaSecrets`

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
  readonly #open = new Set<OpenStream>()

  constructor(options: DiscoveryServiceOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#open.size
  }

  register(server: Server): void {
    const asIs = (bytes: Buffer) => bytes
    const fetch = this.#fetch.bind(this)
    server.register(STREAM_SECRETS, neverCalled, asIs, decodeDiscoveryRequest, 'bidi')
    server.register(DELTA_SECRETS, neverCalled, asIs, decodeDeltaRequest, 'bidi')
    server.register(`/${SDS_SERVICE}/FetchSecrets`, fetch, asIs, decodeDiscoveryRequest, 'unary')
  }

  /** The server has to be made with it: it takes the streams, and lets other calls through to their handlers. */
  interceptor(): ServerInterceptor {
    const { sotw, delta } = this.#options.context
    const openers = new Map([
      [STREAM_SECRETS, this.#opener('StreamSecrets', sotw, context => new SotwStream(context))],
      [DELTA_SECRETS, this.#opener('DeltaSecrets', delta, context => new DeltaStream(context))],
    ])
    return ({ path }, call) => {
      const open = openers.get(path)
      return open ? new TakenCall(call, open) : new ServerInterceptingCall(call)
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
    }
    return call => {
      const connection = this.#admit(call.getPeer(), method)
      if (connection instanceof StreamRefusal) {
        call.sendStatus(toStatusError(connection))
        return
      }
      const stream = new DiscoveryCall(call, connection, options)
      this.#open.add(stream)
      call.start(stream)
    }
  }

  #fetch(call: ServerUnaryCall<Decoded<DiscoveryRequest>, Buffer>, callback: sendUnaryData<Buffer>): void {
    const connection = this.#admit(call.getPeer(), 'FetchSecrets')
    if (connection instanceof StreamRefusal) {
      callback(toStatusError(connection))
      return
    }
    const cancellation = new AbortController()
    call.on('cancelled', () => cancellation.abort())
    this.#answer(call.request, connection, cancellation).then(
      answer => callback(null, answer),
      error => callback(toStatusError(error)),
    )
  }

  /** Counts as a stream as long as it waits. */
  async #answer(
    decoded: Decoded<DiscoveryRequest>,
    connection: Connection,
    cancellation: AbortController,
  ): Promise<Buffer> {
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

  #admit(peer: string, method: SdsMethod): Connection | StreamRefusal {
    const connection = this.#options.connectionOf(peer)
    if (!connection) return new StreamRefusal('unavailable', 'the connection is closing')
    if (this.#open.size < this.#options.maxStreams) return connection
    this.#options.context.observe({ kind: 'stream-refused', connection: connection.info, method })
    return new StreamRefusal(
      'resource-exhausted',
      `this socket serves ${this.#options.maxStreams} streams at once, and has them`,
    )
  }

  #report(report: StreamReport, stream: StreamInfo, peer: string): void {
    const { source, observe } = this.#options.context
    if (report.kind !== 'stale') source.record(report.key, toLedgerEvent(report, peer))
    observe({ kind: 'stream-report', stream, report })
  }
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

/** grpc-js needs a handler to know a method. */
function neverCalled(): void {}

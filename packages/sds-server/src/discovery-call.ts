/** Joins the protocol of a stream to its gRPC call, with one message on its way at a time. */
import type { ServerDuplexStream } from '@grpc/grpc-js'
import type { Connection } from './connection-gate.ts'
import type { DiscoveryStream, StreamContext, StreamReport } from './discovery-protocol.ts'
import { toStatusError } from './grpc-status.ts'
import { NackLimit } from './nack-limit.ts'
import { describePeer } from './report-to-ledger.ts'
import type { Decoded } from './request-codec.ts'
import type { SdsContext } from './sds-context.ts'
import type { SdsMethod, StreamInfo } from './sds-event.ts'
import type { ResponseEncoder } from './secret-encoding.ts'
import { StreamRefusal } from './stream-refusal.ts'
import type { SecretView } from './subscriptions.ts'
import type { TurnTaker } from './turn-queue.ts'

/** What all streams of one method on one socket share. */
export interface DiscoveryCallOptions<Request extends Answer> {
  readonly method: SdsMethod
  readonly maxNames: number
  readonly encoder: ResponseEncoder
  readonly context: SdsContext
  createStream(context: StreamContext): DiscoveryStream<Request>
  /** `peer` says who it is, for people. */
  report(report: StreamReport, stream: StreamInfo, peer: string): void
  onClose(call: DiscoveryCall<Request>): void
}

/** What the requests of both forms have in common here. */
export interface Answer {
  readonly errorDetail: { readonly message: string } | undefined
}

const NOT_REFUSED = { code: 0, details: '' }

/** As `StreamInfo`, and kept up to date. */
interface LiveInfo extends StreamInfo {
  node: string
  names: number
}

/** One open stream. A reader that is slow gets the newest state when it reads on, and is not read from until then. */
export class DiscoveryCall<Request extends Answer> implements StreamContext, TurnTaker {
  readonly view: SecretView
  readonly #call: ServerDuplexStream<Decoded<Request>, Buffer>
  readonly #options: DiscoveryCallOptions<Request>
  readonly #stream: DiscoveryStream<Request>
  readonly #info: LiveInfo
  #state: 'idle' | 'writing' | 'ended' | 'closed' = 'idle'
  #status = NOT_REFUSED
  /** A request that came while an answer was on its way. Nothing more is read until that has gone. */
  #held: Decoded<Request> | undefined
  #nacks: NackLimit | undefined
  #peer = ''

  constructor(
    call: ServerDuplexStream<Decoded<Request>, Buffer>,
    connection: Connection,
    options: DiscoveryCallOptions<Request>,
  ) {
    const { method, context } = options
    this.view = connection.permission
    this.#call = call
    this.#options = options
    this.#info = {
      id: context.nextId(),
      method,
      connection: connection.info,
      node: '',
      names: 0,
      openedAt: context.clock.now(),
    }
    this.#stream = options.createStream(this)
    context.observe({ kind: 'stream-opened', stream: this.info() })
    call.on('data', (decoded: Decoded<Request>) => this.#onRequest(decoded))
    call.on('end', () => this.#end())
    call.on('cancelled', () => this.#close())
    call.on('close', () => this.#close())
  }

  get maxNames(): number {
    return this.#options.maxNames
  }

  /** As it is now. */
  info(): StreamInfo {
    return { ...this.#liveInfo() }
  }

  nextNonce(): string {
    return this.#options.context.nextNonce()
  }

  /** A push waits for its turn; one that meets a message on its way goes when that has gone. */
  wake(): void {
    if (this.#state === 'idle') this.#options.context.pushes.add(this)
  }

  takeTurn(): void {
    this.#flush()
  }

  report(report: StreamReport): void {
    const info = this.#liveInfo()
    if (this.#peer === '' && info.node !== '') this.#peer = describePeer(info)
    this.#options.report(report, info, this.#peer)
  }

  /** Ends the stream with a status; the peer will come again. */
  refuse(error: unknown): void {
    if (this.#isOver()) return
    if (!(error instanceof StreamRefusal))
      this.#options.context.observe({ kind: 'stream-failed', stream: this.info(), error })
    const statusError = toStatusError(error)
    this.#status = { code: statusError.code, details: statusError.details }
    this.#stop()
    this.#call.emit('error', statusError)
  }

  #liveInfo(): LiveInfo {
    this.#info.node = this.#stream.nodeId
    this.#info.names = this.#stream.names
    return this.#info
  }

  #isOver(): boolean {
    return this.#state === 'ended' || this.#state === 'closed'
  }

  #onRequest(decoded: Decoded<Request>): void {
    if (this.#isOver()) return
    // Two requests must not share one answer, and a peer that does not read must not make us work.
    if (this.#state === 'writing') {
      this.#held = decoded
      this.#call.pause()
      return
    }
    try {
      if (decoded.kind === 'malformed')
        throw new StreamRefusal('invalid-argument', 'the message is no discovery request')
      if (decoded.request.errorDetail) this.#countNack()
      this.#stream.receive(decoded.request)
    } catch (error) {
      this.refuse(error)
      return
    }
    this.#flush()
  }

  #countNack(): void {
    const { clock, nacksPerMinute } = this.#options.context
    this.#nacks ??= new NackLimit(clock, nacksPerMinute)
    this.#nacks.count()
  }

  #flush(): void {
    if (this.#state !== 'idle') return
    try {
      const message = this.#stream.take()
      if (!message) return
      this.#state = 'writing'
      this.#call.write(this.#options.encoder.encode(message), () => this.#onWritten())
    } catch (error) {
      this.refuse(error)
    }
  }

  /** grpc-js calls this when HTTP/2 has taken the message, which it does as far as the peer's window is open. */
  #onWritten(): void {
    if (this.#state !== 'writing') return
    this.#state = 'idle'
    const held = this.#held
    if (held) {
      this.#held = undefined
      this.#onRequest(held)
      this.#call.resume()
    }
    this.#flush()
  }

  #end(): void {
    if (this.#isOver()) return
    this.#stop()
    this.#call.end()
  }

  #stop(): void {
    this.#state = 'ended'
    this.#held = undefined
    this.#options.context.pushes.delete(this)
    this.#stream[Symbol.dispose]()
  }

  #close(): void {
    if (this.#state === 'closed') return
    const stream = this.info()
    this.#stop()
    this.#state = 'closed'
    const { code: status, details } = this.#status
    this.#options.context.observe({ kind: 'stream-closed', stream, status, details })
    this.#options.onClose(this)
  }
}

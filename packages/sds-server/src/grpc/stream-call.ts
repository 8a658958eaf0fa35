/** Joins the protocol of a stream to its gRPC call, with one message on its way at a time. */
import type { StreamReceipts } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { Connection } from '../access/connection.ts'
import type { CallerBudget } from '../budget/caller-budget.ts'
import { NackRate } from '../budget/nack-rate.ts'
import { describePeer } from '../events/describe-peer.ts'
import type { CallMethod, StreamInfo } from '../events/sds-event.ts'
import type { MessageComposer } from '../protocol/discovery-message.ts'
import type { DiscoveryStream, StreamContext, StreamReport, SubscribedName } from '../protocol/discovery-protocol.ts'
import { type Decoded, heapBytes } from '../protocol/request-codec.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import type { SecretSource, SecretView } from '../protocol/secret-source.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { Subscriptions } from '../protocol/subscriptions.ts'
import type { StreamCallContext } from './call-context.ts'
import { OK, toStatusError, UNAVAILABLE } from './grpc-status.ts'
import type { Call, CallListener, HeaderReader } from './http2-call.ts'
import { IncomingRequests, type RequestBounds, type RequestListener } from './incoming-requests.ts'
import type { TurnTaker } from './turn-queue.ts'

/** How the streams of one method are served on one socket. */
export interface StreamMethod<Request extends Answer, Message> {
  readonly method: CallMethod
  /** The name of a request in messages. */
  readonly requestName: string
  readonly maxNames: number
  readonly context: StreamCallContext
  decode(message: Buffer): Decoded<Request>
  createStream(context: StreamContext, subscriptions: Subscriptions): DiscoveryStream<Request, Message>
  /** A frame that is acquired for one write. */
  encodeMessage(message: Message): ResponseFrame
  /** Throws a `StreamRefusal` for a call with other headers. Default: any will do. */
  checkHeaders?(header: HeaderReader): void
}

/** The calls of one socket, as one of them sees them. */
export interface CallHost extends RequestBounds {
  /** Counts misuse, and closes the connection of a caller with too much of it. */
  fault(connection: Connection): void
  delete(stream: object): void
}

/** The part that the requests of all forms share. */
export interface Answer {
  /** The response's nonce in an ACK or NACK; empty in any other request. */
  readonly responseNonce: string
  readonly errorDetail: { readonly message: string } | undefined
}

const NOT_REFUSED = { code: 0, details: '' }

/** Characters of a peer's texts that the cost of a stream includes. */
const FREE_TEXT = 512

/** A `StreamInfo` that is updated in place. */
interface LiveInfo extends StreamInfo {
  node: string
  names: number
}

/**
 * One open stream. At most one response is in flight. Meanwhile ACKs are read, up to the next request that needs a response:
 * a peer that writes before it reads would otherwise deadlock. So a slow reader costs one message, and gets the newest state
 * when it reads again.
 */
export class StreamCall<Request extends Answer, Message>
  implements StreamContext, TurnTaker, CallListener, RequestListener
{
  readonly connection: Connection
  readonly #call: Call
  readonly #requests: IncomingRequests
  readonly #options: StreamMethod<Request, Message>
  readonly #host: CallHost
  readonly receipts: StreamReceipts | undefined
  readonly #subscriptions: Subscriptions
  readonly #stream: DiscoveryStream<Request, Message>
  readonly #info: LiveInfo
  #state: 'new' | 'idle' | 'writing' | 'ended' = 'new'
  #status = NOT_REFUSED
  #hasAnswered = false
  /** A request that needs its own response and arrived while one was in flight. */
  #held: Decoded<Request> | undefined
  /** Bytes that are charged for `#held`. */
  #heldBytes = 0
  /** Bytes that are charged for the response in flight, and for the peer's texts. */
  #sending = 0
  #texts = 0
  #nacks: NackRate | undefined
  #peer = ''

  constructor(call: Call, connection: Connection, options: StreamMethod<Request, Message>, host: CallHost) {
    const { method, context } = options
    this.#call = call
    this.connection = connection
    this.#options = options
    this.#host = host
    this.#requests = new IncomingRequests(call, connection, host, this)
    this.#info = {
      id: context.nextId(),
      method,
      connection: connection.info,
      node: '',
      names: 0,
      openedAt: context.clock.now(),
    }
    this.receipts = context.receipts?.open(() => describePeer(this.#liveInfo()))
    this.#subscriptions = new Subscriptions(this)
    this.#stream = options.createStream(this, this.#subscriptions)
    context.events.emit({ kind: 'stream-opened', stream: this.info() })
  }

  start(): void {
    this.#call.start(this.#requests, this)
  }

  get subject(): string | undefined {
    return this.connection.info.subject
  }

  get view(): SecretView {
    return this.connection.permission
  }

  get source(): SecretSource {
    return this.#options.context.source
  }

  get clock(): Clock {
    return this.#options.context.clock
  }

  get budget(): CallerBudget {
    return this.connection.budget
  }

  get maxNames(): number {
    return this.#options.maxNames
  }

  /** A snapshot. */
  info(): StreamInfo {
    return { ...this.#liveInfo() }
  }

  subscribed(only?: string): Iterable<SubscribedName> {
    return this.#subscriptions.list(only)
  }

  get messages(): MessageComposer {
    return this.#options.context.messages
  }

  /** A push waits for its turn, and for the response in flight. */
  wake(): void {
    if (this.#state === 'idle') this.#options.context.pushes.add(this)
  }

  report(report: StreamReport): void {
    const info = this.#liveInfo()
    if (this.#peer === '' && info.node !== '') this.#describe(info)
    this.#options.context.events.emit({ kind: 'stream-report', stream: info, report, peer: this.#peer })
  }

  onHeaders(header: HeaderReader): void {
    this.#state = 'idle'
    try {
      this.#options.checkHeaders?.(header)
    } catch (error) {
      this.refuse(error)
    }
    this.#read()
  }

  onMessage(message: Buffer): void {
    this.#handle(this.#options.decode(message))
    this.#read()
  }

  onHalfClose(): void {
    if (this.#isOver() || this.#stream.outlivesRequests) return
    this.#stop()
    this.#call.sendStatus(OK)
  }

  onEnd(): void {
    // A stream without an answer is misuse, unless the server itself shuts down.
    if (!this.#hasAnswered && this.#status.code !== UNAVAILABLE) this.#host.fault(this.connection)
    this.#requests.stop()
    const stream = this.info()
    this.#stop()
    this.#options.context.events.emit({
      kind: 'stream-closed',
      stream,
      status: this.#status.code,
      details: this.#status.details,
    })
    this.#host.delete(this)
    this.#call.onClosed(() => this.#onGone())
  }

  /** Closes the connection of a peer that is no longer allowed one of its names: it reconnects, and asks under the new rules. */
  review(): void {
    if (this.#isOver()) return
    try {
      if (!this.#subscriptions.review()) {
        this.connection.cut()
        return
      }
      this.#stream.reviewed?.()
      this.wake()
    } catch (error) {
      this.refuse(error)
    }
  }

  /** Ends the stream with a status; the peer is expected to reconnect. */
  refuse(error: unknown): void {
    if (this.#isOver()) return
    if (!(error instanceof StreamRefusal))
      this.#options.context.events.emit({ kind: 'stream-failed', stream: this.info(), error })
    const { code, details } = toStatusError(error)
    this.#status = { code, details }
    this.#stop()
    this.#call.sendStatus(this.#status)
  }

  /** The HTTP/2 stream of the call is closed. */
  #onGone(): void {
    this.budget.release(this.#sending + this.#texts)
    this.budget.closeStream()
  }

  #describe(info: StreamInfo): void {
    this.#peer = describePeer(info)
    const bytes = info.node.length + this.#peer.length - FREE_TEXT
    if (bytes <= 0) return
    this.budget.chargeOrRefuse(bytes, 'more streams')
    this.#texts = bytes
  }

  #liveInfo(): LiveInfo {
    this.#info.node = this.#stream.nodeId
    this.#info.names = this.#subscriptions.size
    return this.#info
  }

  #isOver(): boolean {
    return this.#state === 'ended'
  }

  /** Asks for the next request, unless one waits for its own response. */
  #read(): void {
    if (!this.#isOver() && !this.#held) this.#requests.startRead()
  }

  #handle(decoded: Decoded<Request>): void {
    if (this.#isOver()) return
    // Two requests must not share one response.
    const isHeld = this.#state === 'writing' && (decoded.kind === 'malformed' || decoded.request.responseNonce === '')
    try {
      if (isHeld) {
        this.#hold(decoded)
        return
      }
      if (decoded.kind === 'malformed')
        throw new StreamRefusal('invalid-argument', `the message is not a ${this.#options.requestName}`)
      if (decoded.request.errorDetail) this.#countNack()
      this.#stream.receive(decoded.request)
    } catch (error) {
      this.refuse(error)
      return
    }
    this.takeTurn()
  }

  #hold(decoded: Decoded<Request>): void {
    const bytes = heapBytes(decoded)
    this.budget.chargeOrRefuse(bytes, 'more unread requests')
    this.#heldBytes = bytes
    this.#held = decoded
  }

  #takeHeld(): Decoded<Request> | undefined {
    const held = this.#held
    if (!held) return undefined
    this.budget.release(this.#heldBytes)
    this.#heldBytes = 0
    this.#held = undefined
    return held
  }

  #countNack(): void {
    const { clock, nacksPerMinute } = this.#options.context
    this.#nacks ??= new NackRate(clock, nacksPerMinute)
    this.#nacks.count()
  }

  /** Sends what is due, if nothing is in flight. */
  takeTurn(): void {
    if (this.#state !== 'idle') return
    try {
      const message = this.#stream.take()
      if (!message) return
      const frame = this.#options.encodeMessage(message)
      if (!this.#chargeSending(frame)) return
      this.#state = 'writing'
      this.connection.answers++
      this.#call.sendFrame(frame, this.connection.unsent, () => this.#onWritten(message))
    } catch (error) {
      this.refuse(error)
    }
  }

  #chargeSending(frame: ResponseFrame): boolean {
    const { byteLength } = frame.bytes.buffer
    try {
      this.budget.chargeOrRefuse(byteLength, 'more unread responses')
      this.#sending = byteLength
      return true
    } catch (error) {
      frame.release(false)
      this.refuse(error)
      return false
    }
  }

  /** Called when the message was written to the socket, which takes it as far as the peer's window is open. */
  #onWritten(message: Message): void {
    if (this.#state !== 'writing') return
    if (this.#stream.received) this.#call.onReceived(() => this.#onReceived(message))
    this.#state = 'idle'
    this.#hasAnswered = true
    this.budget.release(this.#sending)
    this.#sending = 0
    const held = this.#takeHeld()
    if (held) this.#handle(held)
    else this.takeTurn()
    this.#read()
  }

  #onReceived(message: Message): void {
    if (!this.#isOver()) this.#stream.received?.(message)
  }

  #stop(): void {
    this.#state = 'ended'
    this.#takeHeld()
    this.#options.context.pushes.delete(this)
    this.#subscriptions[Symbol.dispose]()
    this.receipts?.[Symbol.dispose]()
  }
}

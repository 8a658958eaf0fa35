/** Joins the protocol of a stream to its gRPC call, with one message on its way at a time. */
import { type ServerInterceptingCallInterface, status } from '@grpc/grpc-js'
import type { Connection } from '../access/connection-gate.ts'
import type { CallerBudget } from '../budget/caller-budget.ts'
import { NackRate } from '../budget/nack-rate.ts'
import { describePeer } from '../events/describe-peer.ts'
import type { SdsMethod, StreamInfo } from '../events/sds-event.ts'
import type { MessageComposer } from '../protocol/discovery-message.ts'
import type { DiscoveryStream, StreamContext, StreamReport } from '../protocol/discovery-protocol.ts'
import { type Decoded, heapBytes } from '../protocol/request-codec.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import type { ResponseEncoder } from '../protocol/secret-encoding.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { SecretView } from '../protocol/subscriptions.ts'
import type { StreamCallContext } from './call-context.ts'
import { onClosed } from './end-call.ts'
import { toStatusError } from './grpc-status.ts'
import { type FrameSink, sendFrame } from './send-frame.ts'
import type { TurnTaker } from './turn-queue.ts'

/** What all streams of one method on one socket share. */
export interface DiscoveryCallOptions<Request extends Answer> {
  readonly method: SdsMethod
  readonly maxNames: number
  readonly encoder: ResponseEncoder
  readonly context: StreamCallContext
  createStream(context: StreamContext): DiscoveryStream<Request>
  /** `peer` says who it is, for people. */
  report(report: StreamReport, stream: StreamInfo, peer: string): void
  onClose(call: DiscoveryCall<Request>): void
}

/** What the requests of both forms have in common here. */
export interface Answer {
  /** Empty in a request that asks; in an ACK or NACK that of the response. */
  readonly responseNonce: string
  readonly errorDetail: { readonly message: string } | undefined
}

/** What a stream needs of its gRPC call. */
export type StreamTransport = FrameSink & Pick<ServerInterceptingCallInterface, 'startRead' | 'sendStatus'>

/** What grpc-js tells of a call; it has no public name for it. */
type CallListener = Parameters<ServerInterceptingCallInterface['start']>[0]

const NOT_REFUSED = { code: 0, details: '' }

/** Of the texts of a peer so much is part of what a stream costs. */
const FREE_TEXT = 512

/** As `StreamInfo`, and kept up to date. */
interface LiveInfo extends StreamInfo {
  node: string
  names: number
}

/**
 * One open stream. One request is read at a time, and while a message is on its way only as far as the next one that
 * wants an answer of its own, so that a reader that is slow costs one message and gets the newest state when it reads on.
 * ACKs are always read: a peer that writes them before it reads on would wait for us, and we for it. It listens to the call itself: grpc-js' own stream object
 * would read 16 requests ahead, and costs a tenth of a response.
 */
export class DiscoveryCall<Request extends Answer> implements CallListener, StreamContext, TurnTaker {
  readonly #call: StreamTransport
  readonly #connection: Connection
  readonly #options: DiscoveryCallOptions<Request>
  readonly #stream: DiscoveryStream<Request>
  readonly #info: LiveInfo
  #state: 'new' | 'idle' | 'writing' | 'ended' | 'closed' = 'new'
  #status = NOT_REFUSED
  #hasAnswered = false
  #isReadPending = false
  #isInReadLoop = false
  /** A request that wants an answer of its own and came while a message was on its way. */
  #held: Decoded<Request> | undefined
  /** Bytes that are charged for `#held`. */
  #heldBytes = 0
  /** Bytes that are charged for the message on its way, and for the peer's texts. */
  #sending = 0
  #texts = 0
  #nacks: NackRate | undefined
  #peer = ''

  constructor(call: StreamTransport, connection: Connection, options: DiscoveryCallOptions<Request>) {
    const { method, context } = options
    this.#call = call
    this.#connection = connection
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
  }

  get view(): SecretView {
    return this.#connection.permission
  }

  get budget(): CallerBudget {
    return this.#connection.budget
  }

  get maxNames(): number {
    return this.#options.maxNames
  }

  /** As it is now. */
  info(): StreamInfo {
    return { ...this.#liveInfo() }
  }

  get messages(): MessageComposer {
    return this.#options.context.messages
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
    if (this.#peer === '' && info.node !== '') this.#describe(info)
    this.#options.report(report, info, this.#peer)
  }

  /** Whether the call has told anything of itself. */
  get isStarted(): boolean {
    return this.#state !== 'new'
  }

  /** Whether it ends without having been answered, for any reason but our own. */
  get isUnanswered(): boolean {
    return !this.#hasAnswered && this.#status.code !== status.UNAVAILABLE
  }

  onReceiveMetadata(): void {
    this.#state = 'idle'
    this.#read()
  }

  onReceiveMessage(decoded: Decoded<Request>): void {
    this.#isReadPending = false
    this.#onRequest(decoded)
    this.#read()
  }

  /** The peer has said all that it had to say. */
  onReceiveHalfClose(): void {
    if (this.#isOver()) return
    this.#stop()
    this.#call.sendStatus({ code: status.OK, details: 'OK' })
  }

  /** Also called when a call ends as it should. */
  onCancel(): void {
    if (this.#state === 'closed') return
    const stream = this.info()
    this.#stop()
    this.#state = 'closed'
    this.#options.context.observe({
      kind: 'stream-closed',
      stream,
      status: this.#status.code,
      details: this.#status.details,
    })
    this.#options.onClose(this)
    onClosed(this.#call, () => this.#onGone())
  }

  /** A peer that has a name which it may not have any more is cut off, with all its streams: it comes again and asks. */
  review(): void {
    if (this.#isOver()) return
    try {
      if (this.#stream.review()) this.wake()
      else this.#connection.close()
    } catch (error) {
      this.refuse(error)
    }
  }

  /** Ends the stream with a status; the peer will come again. */
  refuse(error: unknown): void {
    if (this.#isOver()) return
    if (!(error instanceof StreamRefusal))
      this.#options.context.observe({ kind: 'stream-failed', stream: this.info(), error })
    const { code, details } = toStatusError(error)
    this.#status = { code, details }
    this.#stop()
    this.#call.sendStatus(this.#status)
  }

  /** Nothing is left of the call on its connection. */
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
    this.#info.names = this.#stream.names
    return this.#info
  }

  #isOver(): boolean {
    return this.#state === 'ended' || this.#state === 'closed'
  }

  /** A request that is here already arrives before `startRead` returns: hence a loop, not one call inside the other. */
  #read(): void {
    if (this.#isInReadLoop) return
    this.#isInReadLoop = true
    while (!this.#isOver() && !this.#held && !this.#isReadPending) {
      this.#isReadPending = true
      this.#call.startRead()
    }
    this.#isInReadLoop = false
  }

  #onRequest(decoded: Decoded<Request>): void {
    if (this.#isOver()) return
    // Two requests must not share one answer.
    const isHeld = this.#state === 'writing' && (decoded.kind === 'malformed' || decoded.request.responseNonce === '')
    try {
      if (isHeld) {
        this.#hold(decoded)
        return
      }
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

  #flush(): void {
    if (this.#state !== 'idle') return
    try {
      const message = this.#stream.take()
      if (!message) return
      const frame = this.#options.encoder.encodeMessage(message)
      if (!this.#chargeSending(frame)) return
      this.#state = 'writing'
      sendFrame(this.#call, frame, () => this.#onWritten())
    } catch (error) {
      this.refuse(error)
    }
  }

  #chargeSending(frame: ResponseFrame): boolean {
    try {
      this.budget.chargeOrRefuse(frame.bytes.length, 'more unread responses')
      this.#sending = frame.bytes.length
      return true
    } catch (error) {
      frame.release()
      this.refuse(error)
      return false
    }
  }

  /** Called when the message is on the socket, where it goes as far as the peer's window is open. */
  #onWritten(): void {
    if (this.#state !== 'writing') return
    this.#state = 'idle'
    this.#hasAnswered = true
    this.budget.release(this.#sending)
    this.#sending = 0
    const held = this.#takeHeld()
    if (held) this.#onRequest(held)
    else this.#flush()
    this.#read()
  }

  #stop(): void {
    this.#state = 'ended'
    this.#takeHeld()
    this.#options.context.pushes.delete(this)
    this.#stream[Symbol.dispose]()
  }
}

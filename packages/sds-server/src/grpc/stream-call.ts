/** Joins the protocol of a stream to its gRPC call, with one message on its way at a time. */
import type { StreamReceipts } from '@livery/core'
import type { Connection } from '../access/connection.ts'
import { NackRate } from '../budget/nack-rate.ts'
import type { StreamInfo } from '../events/sds-event.ts'
import { StreamRecord } from '../events/stream-record.ts'
import type { DiscoveryStream, StreamContext, SubscribedName } from '../protocol/discovery-protocol.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { Subscriptions } from '../protocol/subscriptions.ts'
import type { AnyRequest, CallHost, StreamCallContext, StreamMethod } from './call-context.ts'
import { NOT_ENDED, OK, statusOf, UNAVAILABLE } from './grpc-status.ts'
import type { Call, CallListener } from './http2-call.ts'
import { IncomingRequests, type RequestListener } from './incoming-requests.ts'
import { ownCopy } from './message-assembler.ts'
import type { TurnTaker } from './turn-queue.ts'

/**
 * One open stream. At most one response is in flight. Meanwhile ACKs are read, up to the next request that needs a response:
 * a peer that writes before it reads would otherwise deadlock. So a slow reader costs one message, and gets the newest state
 * when it reads again.
 */
export class StreamCall<Request extends AnyRequest, Message>
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
  readonly record: StreamRecord
  #isOver = false
  #status = NOT_ENDED
  #hasAnswered = false
  /** The message of a request that needs its own response and arrived while one was in flight. */
  #held: Buffer | undefined
  /** Bytes that are charged for the response in flight; 0 while there is none. */
  #sending = 0
  #nacks: NackRate | undefined

  constructor(call: Call, connection: Connection, options: StreamMethod<Request, Message>, host: CallHost) {
    const { method, context } = options
    this.#call = call
    this.connection = connection
    this.#options = options
    this.#host = host
    this.#requests = new IncomingRequests(call.incoming, connection, host, this)
    this.receipts = context.receipts?.open(() => this.record.describePeer())
    this.#subscriptions = new Subscriptions(this)
    this.#stream = options.createStream(this, this.#subscriptions)
    this.record = new StreamRecord(method, context, connection.info, this.#stream, this.#subscriptions)
  }

  start(): void {
    try {
      this.#options.checkHeaders?.(this.#call)
    } catch (error) {
      this.refuse(error)
    }
    this.#call.start(this)
    this.#requests.start()
  }

  get shared(): StreamCallContext {
    return this.#options.context
  }

  info(): StreamInfo {
    return this.record.info
  }

  subscribed(only?: string): Iterable<SubscribedName> {
    return this.#subscriptions.list(only)
  }

  /** A push waits for its turn, and for the response in flight. */
  wake(): void {
    if (this.#isIdle) this.shared.pushes.add(this)
  }

  onMessage(message: Buffer): void {
    if (this.#isOver) return
    try {
      const request = this.#options.decode(message)
      // Two requests must not share one response.
      if (this.#sending > 0 && request.responseNonce === '') {
        this.#hold(message)
        return
      }
      if (request.errorDetail) this.#countNack()
      this.#stream.receive(request)
    } catch (error) {
      this.refuse(error)
      return
    }
    this.takeTurn()
  }

  onHalfClose(): void {
    if (this.#isOver || this.#stream.outlivesRequests) return
    this.#stop()
    this.#call.sendStatus(OK)
  }

  onEnd(): void {
    // A stream without an answer is misuse, unless the server itself shuts down.
    if (!this.#hasAnswered && this.#status.code !== UNAVAILABLE) this.#host.fault(this.connection)
    this.record.closed(this.#status)
    this.#stop()
    this.#host.delete(this)
  }

  onGone(): void {
    this.connection.budget.release(this.#sending)
    this.connection.budget.closeCall('stream')
  }

  /** Closes the connection of a peer that is no longer allowed one of its names: it reconnects, and asks under the new rules. */
  review(): void {
    if (this.#isOver) return
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
    if (this.#isOver) return
    this.record.failed(error)
    this.#status = statusOf(error)
    this.#stop()
    this.#call.sendStatus(this.#status)
  }

  /** Sends what is due, if nothing is in flight. */
  takeTurn(): void {
    if (!this.#isIdle) return
    try {
      const message = this.#stream.take()
      if (message) this.#send(message, this.#options.encoder.encodeMessage(message))
    } catch (error) {
      this.refuse(error)
    }
  }

  #hold(message: Buffer): void {
    this.connection.budget.chargeOrRefuse(message.length, 'more unread requests')
    this.#held = ownCopy(message)
    this.#requests.suspend()
  }

  #takeHeld(): Buffer | undefined {
    const held = this.#held
    this.#held = undefined
    if (held) this.connection.budget.release(held.length)
    return held
  }

  #countNack(): void {
    const { clock, nacksPerMinute } = this.shared
    this.#nacks ??= new NackRate(clock, nacksPerMinute)
    this.#nacks.count()
  }

  #send(message: Message, frame: ResponseFrame): void {
    const { byteLength } = frame.bytes.buffer
    try {
      this.connection.budget.chargeOrRefuse(byteLength, 'more unread responses')
    } catch (error) {
      frame.release(false)
      throw error
    }
    this.#sending = byteLength
    this.#call.sendFrame(frame, this.connection.unsent, () => this.#onWritten(message))
  }

  /** Called when the message was written to the socket, which takes it as far as the peer's window is open. */
  #onWritten(message: Message): void {
    if (this.#isOver) return
    if (this.#stream.received)
      this.#call.onReceived(() => {
        if (!this.#isOver) this.#stream.received?.(message)
      })
    this.#hasAnswered = true
    this.connection.budget.release(this.#sending)
    this.#sending = 0
    const held = this.#takeHeld()
    if (held) this.onMessage(held)
    else this.takeTurn()
    this.#requests.resume()
  }

  get #isIdle(): boolean {
    return !this.#isOver && this.#sending === 0
  }

  #stop(): void {
    this.#isOver = true
    this.#requests.stop()
    this.#takeHeld()
    this.shared.pushes.delete(this)
    this.#subscriptions[Symbol.dispose]()
    this.receipts?.[Symbol.dispose]()
  }
}

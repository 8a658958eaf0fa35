/** The calls of one socket: admitted by the budget of their caller, listed while they are open, reviewed and ended together. */
import type { Events } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { Connection } from '../access/connection.ts'
import type { CallBound, CallerBudget, SocketRoom } from '../budget/caller-budget.ts'
import type { DeadlineQueue } from '../budget/deadline-queue.ts'
import type { CallMethod, SdsEvent, StreamInfo } from '../events/sds-event.ts'
import type { StreamReport } from '../protocol/discovery-protocol.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { SubscribedName } from '../protocol/subscriptions.ts'
import type { CallListener, HeaderReader, Http2Call } from './http2-call.ts'
import { type IncomingOptions, IncomingRequests } from './incoming-requests.ts'
import { type Answer, StreamCall, type StreamList, type StreamMethod } from './stream-call.ts'
import { UnaryCall, type UnaryMethod } from './unary-call.ts'

interface SocketCallsOptions {
  readonly clock: Clock
  readonly events: Events<SdsEvent>
  readonly room: SocketRoom
  readonly messageBytes: number
  /** The deadlines of requests. */
  readonly deadlines: DeadlineQueue
}

/** A call as it is listed. */
export interface OpenStream {
  /** Its caller, if known. */
  readonly subject: string | undefined
  info(): StreamInfo
  /** See `DiscoveryStream`; empty for a fetch, which is answered once. */
  subscribed(only?: string): Iterable<SubscribedName>
  review(): void
  refuse(error: unknown): void
}

/** An open stream, for a reader. */
export type ListedStream = Pick<OpenStream, 'info' | 'subscribed'>

export class SocketCalls implements StreamList {
  readonly #options: SocketCallsOptions
  /** A fetch is listed from its message on. */
  readonly #open = new Set<OpenStream>()

  constructor(options: SocketCallsOptions) {
    this.#options = options
  }

  /** Streams that open meanwhile come too. */
  streams(): Iterable<ListedStream> {
    return this.#open.values()
  }

  /** Call after the permissions of callers changed, or of one subject. */
  review(subject?: string): void {
    for (const stream of this.#open) if (subject === undefined || stream.subject === subject) stream.review()
  }

  /** Ends every stream with UNAVAILABLE, so that its peer reconnects. */
  endStreams(): void {
    for (const stream of [...this.#open]) stream.refuse(new StreamRefusal('unavailable', 'the agent is shutting down'))
  }

  add(stream: OpenStream): void {
    this.#open.add(stream)
  }

  delete(stream: OpenStream): void {
    this.#open.delete(stream)
  }

  /** Serves `call` as a stream, or refuses it. */
  serve<Request extends Answer, Message>(
    call: Http2Call,
    connection: Connection,
    method: StreamMethod<Request, Message>,
  ): void {
    const bound = connection.takesCalls ? connection.budget.openStream() : 'closing'
    if (bound) this.#refuse(call, connection, method.method, bound)
    else this.#take(call, connection, method)
  }

  /** Serves `call`, which has one request, or refuses it. */
  serveUnary(call: Http2Call, connection: Connection, method: UnaryMethod): void {
    const bound = connection.takesCalls ? method.open(connection.budget) : 'closing'
    if (bound) {
      this.#refuse(call, connection, method.method, bound)
      return
    }
    const unary = new UnaryCall(call, method, this.incoming(connection), () => this.fault(connection))
    call.start(unary, unary)
  }

  #refuse(call: Http2Call, connection: Connection, method: CallMethod | 'Health', bound: CallBound | 'closing'): void {
    if (bound === 'closing') {
      call.refuse(connectionCloses())
      return
    }
    const { events, room } = this.#options
    const what = method === 'Health' ? 'health checks' : 'streams'
    if (method !== 'Health') events.emit({ kind: 'stream-refused', connection: connection.info, method, bound })
    this.fault(connection)
    call.refuse(noRoom(what, bound, connection.budget, room))
  }

  /** Counts misuse, and closes the connection of a caller with too much of it. */
  fault(connection: Connection): void {
    if (!connection.budget.addFaults(this.#options.clock.now(), 1)) connection.close()
  }

  incoming(connection: Connection): Pick<IncomingOptions, 'connection' | 'deadlines' | 'maxBytes'> {
    return { connection, deadlines: this.#options.deadlines, maxBytes: this.#options.messageBytes }
  }

  report(report: StreamReport, stream: StreamInfo, peer: string): void {
    this.#options.events.emit({ kind: 'stream-report', stream, report, peer })
  }

  #take<Request extends Answer, Message>(
    call: Http2Call,
    connection: Connection,
    method: StreamMethod<Request, Message>,
  ): void {
    const served = new ServedStream(call, connection, method, this)
    this.#open.add(served.stream)
    call.start(served.requests, served)
  }
}

/** Joins a stream to its call and its requests. A class, since closures would cost each open stream half a kilobyte. */
class ServedStream<Request extends Answer, Message> implements IncomingOptions, CallListener {
  readonly #calls: SocketCalls
  readonly #method: StreamMethod<Request, Message>
  readonly connection: Connection
  readonly maxBytes: number
  readonly deadlines: DeadlineQueue
  readonly requests: IncomingRequests
  readonly stream: StreamCall<Request, Message>

  constructor(call: Http2Call, connection: Connection, method: StreamMethod<Request, Message>, calls: SocketCalls) {
    const { maxBytes, deadlines } = calls.incoming(connection)
    this.#calls = calls
    this.#method = method
    this.connection = connection
    this.maxBytes = maxBytes
    this.deadlines = deadlines
    this.requests = new IncomingRequests(call, this)
    this.stream = new StreamCall(call, this.requests, connection, method, calls)
  }

  onHeaders(header: HeaderReader): void {
    this.stream.onHeaders(header)
  }

  onMessage(message: Buffer): void {
    this.stream.onRequest(this.#method.decode(message))
  }

  onHalfClose(): void {
    this.stream.onHalfClose()
  }

  onRefusal(error: unknown): void {
    this.stream.refuse(error)
  }

  onEnd(): void {
    if (this.stream.isUnanswered) this.#calls.fault(this.connection)
    this.requests.stop()
    this.stream.onEnd()
  }
}

/** The refusal of a call whose connection takes none. */
export function connectionCloses(): StreamRefusal {
  return new StreamRefusal('unavailable', 'the connection is closing')
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

/** The calls of one socket: admitted by the budget of their caller, listed while they are open, reviewed and ended together. */
import type { Connection } from '../access/connection.ts'
import type { CallBound, CallerBudget, SocketRoom } from '../budget/caller-budget.ts'
import type { DeadlineQueue } from '../budget/deadline-queue.ts'
import type { CallMethod, StreamInfo } from '../events/sds-event.ts'
import type { SubscribedName } from '../protocol/discovery-protocol.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { AnyRequest, CallHost, StreamCallContext, StreamMethod } from './call-context.ts'
import type { Http2Call } from './http2-call.ts'
import type { RequestBounds } from './incoming-requests.ts'
import { StreamCall } from './stream-call.ts'
import { UnaryCall, type UnaryMethod } from './unary-call.ts'

/** A call as it is listed. */
export interface OpenStream {
  readonly connection: Connection
  info(): StreamInfo
  /** See `DiscoveryStream`; empty for a fetch, which is answered once. */
  subscribed(only?: string): Iterable<SubscribedName>
  review(): void
  refuse(error: unknown): void
}

/** An open stream, for a reader. */
export type ListedStream = Pick<OpenStream, 'info' | 'subscribed'>

export class SocketCalls implements CallHost {
  readonly maxBytes: number
  readonly deadlines: DeadlineQueue
  readonly #context: Pick<StreamCallContext, 'clock' | 'events'>
  readonly #room: SocketRoom
  /** A fetch is listed from its message on. */
  readonly #open = new Set<OpenStream>()

  constructor(
    context: Pick<StreamCallContext, 'clock' | 'events'>,
    room: SocketRoom,
    { maxBytes, deadlines }: RequestBounds,
  ) {
    this.#context = context
    this.#room = room
    this.maxBytes = maxBytes
    this.deadlines = deadlines
  }

  /** Streams that open meanwhile come too. */
  streams(): Iterable<ListedStream> {
    return this.#open.values()
  }

  /** Call after the permissions of callers changed, or of one subject. */
  review(subject?: string): void {
    for (const stream of this.#open)
      if (subject === undefined || stream.connection.info.subject === subject) stream.review()
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
  serve<Request extends AnyRequest, Message>(
    call: Http2Call,
    connection: Connection,
    method: StreamMethod<Request, Message>,
  ): void {
    const bound = connection.takesCalls ? connection.budget.openCall('stream') : 'closing'
    if (bound) {
      this.#refuse(call, connection, method.method, bound)
      return
    }
    const stream = new StreamCall(call, connection, method, this)
    this.#open.add(stream)
    stream.start()
  }

  /** Serves `call`, which has one request, or refuses it. */
  serveUnary(call: Http2Call, connection: Connection, method: UnaryMethod): void {
    const { kind } = method
    const bound = connection.takesCalls ? connection.budget.openCall(kind) : 'closing'
    if (bound) this.#refuse(call, connection, kind === 'fetch' ? 'FetchSecrets' : undefined, bound)
    else new UnaryCall(call, connection, method, this).start()
  }

  /** `method`: absent for a health check. */
  #refuse(call: Http2Call, connection: Connection, method: CallMethod | undefined, bound: CallBound | 'closing'): void {
    if (bound === 'closing') {
      call.refuse(connectionCloses())
      return
    }
    if (method) this.#context.events.emit({ kind: 'stream-refused', connection: connection.info, method, bound })
    this.fault(connection)
    call.refuse(noRoom(method ? 'streams' : 'health checks', bound, connection.budget, this.#room))
  }

  fault(connection: Connection): void {
    if (!connection.budget.addFaults(this.#context.clock.now(), 1)) connection.close()
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

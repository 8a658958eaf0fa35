/** What the calls of a method and of a socket share. */
import type { Events, Receipts } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { Connection } from '../access/connection.ts'
import type { CallMethod, SdsEvent } from '../events/sds-event.ts'
import type { MessageComposer } from '../protocol/discovery-message.ts'
import type { DiscoveryStream, StreamContext } from '../protocol/discovery-protocol.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import type { ResponseEncoder } from '../protocol/secret-encoding.ts'
import type { SecretSource } from '../protocol/secret-source.ts'
import type { RefusedNames } from '../protocol/sotw-stream.ts'
import type { Subscriptions } from '../protocol/subscriptions.ts'
import type { Call } from './http2-call.ts'
import type { RequestBounds } from './incoming-requests.ts'
import type { TurnQueue } from './turn-queue.ts'

/** The part that a stream needs. */
export interface StreamCallContext {
  readonly clock: Clock
  readonly source: SecretSource
  /** The most names on one stream. */
  readonly maxNames: number
  readonly nacksPerMinute: number
  /** Streams that have something to push. */
  readonly pushes: TurnQueue
  readonly messages: MessageComposer
  readonly receipts: Receipts | undefined
  nextId(): number
  readonly events: Events<SdsEvent>
}

/** The part that the methods of SDS need. */
export interface ServiceContext extends StreamCallContext {
  readonly fetchWaitMs: number
  readonly refusedNames: RefusedNames
  readonly sotw: ResponseEncoder
  readonly delta: ResponseEncoder
}

/** How the streams of one method are served on one socket. */
export interface StreamMethod<Request extends AnyRequest, Message> {
  readonly method: CallMethod
  readonly context: StreamCallContext
  readonly encoder: { encodeMessage(message: Message): ResponseFrame }
  /** Throws a `StreamRefusal` for other bytes. Keeps nothing of `message`. */
  decode(message: Buffer): Request
  createStream(context: StreamContext, subscriptions: Subscriptions): DiscoveryStream<Request, Message>
  /** Throws a `StreamRefusal` for a call with other headers. Default: all headers are accepted. */
  checkHeaders?(call: Pick<Call, 'header'>): void
}

/** The calls of one socket, as one of them sees them. */
export interface CallHost extends RequestBounds {
  /** Counts misuse, and closes the connection of a caller with too much of it. */
  fault(connection: Connection): void
  delete(stream: object): void
}

/** The part that the requests of all forms share. */
export interface AnyRequest {
  /** The response's nonce in an ACK or NACK; empty in any other request. */
  readonly responseNonce: string
  readonly errorDetail: { readonly message: string } | undefined
}

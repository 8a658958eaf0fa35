/** The state and settings shared by all calls of one server. */
import type { Events, Receipts } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { SdsEvent } from '../events/sds-event.ts'
import type { MessageComposer } from '../protocol/discovery-message.ts'
import type { ResponseEncoder } from '../protocol/secret-encoding.ts'
import type { SecretSource } from '../protocol/secret-source.ts'
import type { RefusedNames } from '../protocol/sotw-stream.ts'
import type { TurnQueue } from './turn-queue.ts'

/** The part that a stream needs. */
export interface StreamCallContext {
  readonly clock: Clock
  readonly source: SecretSource
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

/** What all sockets of one server share. */
import type { Clock, ReadPeerCredentials } from '@livery/core'
import type { CallerAccounts } from '../budget/caller-account.ts'
import type { SdsEvent } from '../events/sds-event.ts'
import type { MessageComposer } from '../protocol/discovery-message.ts'
import type { WellKnownNames } from '../protocol/resource-name.ts'
import type { ResponseEncoder } from '../protocol/secret-encoding.ts'
import type { SecretSource } from '../protocol/secret-source.ts'
import type { AcceptWaiting } from '../socket/accept-connections.ts'
import type { TurnQueue } from './turn-queue.ts'

export interface SdsContext {
  readonly source: SecretSource
  readonly names: WellKnownNames
  readonly clock: Clock
  readonly accounts: CallerAccounts
  readonly readPeerCredentials: ReadPeerCredentials | undefined
  readonly acceptWaiting: AcceptWaiting | undefined
  readonly takeover: boolean
  readonly nacksPerMinute: number
  readonly requestTimeoutMs: number
  readonly fetchWaitMs: number
  readonly connectionIdleMs: number
  readonly keepaliveMs: number
  readonly keepaliveTimeoutMs: number
  readonly sotw: ResponseEncoder
  readonly delta: ResponseEncoder
  /** Streams that have something to push. */
  readonly pushes: TurnQueue
  readonly messages: MessageComposer
  nextId(): number
  observe(event: SdsEvent): void
}

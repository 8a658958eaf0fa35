/** The types of one stream without its transport, in either form of the xDS protocol: its dependencies, its reports, its names. */
import type { StreamReceipts } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { MessageComposer } from './discovery-message.ts'
import type { DiscoveryMessage, SecretReference } from './response-content.ts'
import type { NameBudget, Resolution, SecretSource, SecretView } from './secret-source.ts'

/** An event on a stream, for the ledger, logs and metrics. */
export type StreamReport =
  | ({ readonly kind: 'asked' } & SecretReference)
  | ({ readonly kind: 'refused'; readonly reason: string } & SecretReference)
  | ({ readonly kind: 'postponed'; readonly reason: string } & SecretReference)
  | ({ readonly kind: 'pushed'; readonly version: string } & SecretReference)
  /** `lagMs`: the time since the response was composed. */
  | ({ readonly kind: 'acked'; readonly version: string; readonly lagMs: number } & SecretReference)
  /** `detail` is scrubbed of anything that could be a key. */
  | ({ readonly kind: 'nacked'; readonly version: string; readonly detail: string } & SecretReference)
  /** A refused name beyond the rate at which refusals of one caller are reported with their name and reason. */
  | { readonly kind: 'refused-unnamed' }
  /** An ACK or NACK of a response that is not the last one. It is never answered. */
  | { readonly kind: 'stale' }

/** One name of a stream, with the versions of its secret that count. */
export interface SubscribedName {
  /** Escaped. */
  readonly name: string
  /** The name of its ledger, such as the identity that `default` means here; `undefined` if it was refused. */
  readonly secret: string | undefined
  readonly access: Resolution['kind']
  /** Why it is not granted. */
  readonly reason: string | undefined
  /** The newest version; `undefined` while there is none for this caller. */
  readonly current: string | undefined
  /** The version that the peer was sent last, or claimed to have when it connected. */
  readonly sent: string | undefined
  /** The version that it accepted last on this stream. Clients of the Workload API accept none. */
  readonly accepted: string | undefined
  /** The version that it rejected last on this stream, unless it accepted it later. */
  readonly rejected: string | undefined
}

/** The dependencies of a stream's state machine. */
export interface StreamContext {
  /** The part that all streams of a socket have. */
  readonly shared: {
    readonly source: Pick<SecretSource, 'watch' | 'request' | 'current'>
    /** The most names on one stream. */
    readonly maxNames: number
    readonly messages: MessageComposer
    readonly clock: Pick<Clock, 'now'>
  }
  readonly connection: {
    /** It can change between calls. */
    readonly permission: SecretView
    readonly budget: NameBudget
  }
  readonly record: { report(report: StreamReport): void }
  /** Receives what the peer was sent and how it answered; absent if no one needs it. */
  readonly receipts: StreamReceipts | undefined
  /** Called when something became due outside `receive`. */
  wake(): void
}

/** The protocol of one stream without its transport: requests in, the newest message out. */
export interface DiscoveryStream<Request, Message = DiscoveryMessage> {
  /** The peer's node id, escaped; empty before the first request. */
  readonly nodeId: string
  /** Throws a `StreamRefusal` that ends the stream. */
  receive(request: Request): void
  /** The one message to send now, or `undefined`. Its content counts as sent. */
  take(): Message | undefined
  /** Whether it continues when the peer has ended its side. Default: no. */
  readonly outlivesRequests?: boolean
  /** Called when the permission has changed, and its subscriptions were reviewed. */
  reviewed?(): void
  /** Called when the peer's HTTP/2 has confirmed all of `message`: for a protocol without answers. */
  received?(message: Message): void
}

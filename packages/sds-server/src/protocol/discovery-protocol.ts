/** One stream without its transport, in either form of the xDS protocol: its dependencies, its reports, its subscriptions. */
import type { StreamReceipts } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { DiscoveryMessage, MessageComposer, SecretReference } from './discovery-message.ts'
import { escapePeerName } from './escape-peer-name.ts'
import { ledgerName } from './secret-source.ts'
import type { HoldBudget, NameBudget, SecretView, SubscribedName, Subscriptions } from './subscriptions.ts'

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

/** How many refused names of a caller are reported with their name: each is a line in the ledger and the log. */
interface RefusalRate {
  reportsRefusal(): boolean
}

/** The dependencies of a stream's state machine. */
export interface StreamContext {
  /** The permission of the caller; it can change between calls. */
  readonly view: SecretView
  readonly budget: NameBudget & HoldBudget & RefusalRate
  /** The most names on one stream. */
  readonly maxNames: number
  readonly messages: MessageComposer
  readonly clock: Pick<Clock, 'now'>
  /** Receives what the peer was sent and how it answered; absent if no one needs it. */
  readonly receipts: StreamReceipts | undefined
  /** Called when something became due outside `receive`. */
  wake(): void
  report(report: StreamReport): void
}

/** The protocol of one stream without its transport: requests in, the newest message out. */
export interface DiscoveryStream<Request, Message = DiscoveryMessage> extends Disposable {
  /** The peer's node id, escaped; empty before the first request. */
  readonly nodeId: string
  readonly names: number
  /** Each name in its state at its turn; `only`: names that equal it or resolve to it. */
  subscribed(only?: string): Iterable<SubscribedName>
  /** Throws a `StreamRefusal` that ends the stream. */
  receive(request: Request): void
  /** Call after the permission changed. Returns `false` if the caller is no longer allowed a name that it was granted. */
  review(): boolean
  /** The one message to send now, or `undefined`. Its content counts as sent. */
  take(): Message | undefined
  /** Whether it continues when the peer has ended its side. Default: no. */
  readonly outlivesRequests?: boolean
  /** Called when the peer's HTTP/2 has confirmed all of `message`: for a protocol without answers. */
  received?(message: Message): void
}

/** Subscribes to a name and reports it if it is new; returns whether it can ever be answered with a secret. */
export function askAndReport(
  subscriptions: Subscriptions,
  name: string,
  held: string | undefined,
  context: Pick<StreamContext, 'report' | 'budget'>,
): boolean {
  const isNew = !subscriptions.has(name)
  const resolution = subscriptions.ask(name, held)
  const isAnswerable = resolution.kind === 'granted' || resolution.kind === 'postponed'
  if (!isNew && isAnswerable) return true
  if (!isAnswerable && !context.budget.reportsRefusal()) {
    context.report({ kind: 'refused-unnamed' })
    return false
  }
  const escaped = escapePeerName(name)
  const reference = {
    name: escaped,
    ledgerName: resolution.kind === 'refused' ? escaped : ledgerName(resolution.secret),
  }
  if (isNew) context.report({ kind: 'asked', ...reference })
  if (resolution.kind === 'granted') return true
  context.report({ kind: isAnswerable ? 'postponed' : 'refused', ...reference, reason: resolution.reason })
  return isAnswerable
}

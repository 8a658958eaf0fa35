/** The shared part of the two forms of the xDS protocol: reports, and the nonces that have no answer yet. */
import type { StreamReceipts } from '@livery/core'
import type { DiscoveryMessage, MessageComposer, SecretReference, SentSecret } from './discovery-message.ts'
import { escapePeerName } from './escape-peer-name.ts'
import { scrubPeerText } from './scrub-peer-text.ts'
import { ledgerName } from './secret-source.ts'
import type { HoldBudget, NameBudget, SecretView, Subscriptions } from './subscriptions.ts'

/** An event on a stream, for the ledger, logs and metrics. */
export type StreamReport =
  | ({ readonly kind: 'asked' } & SecretReference)
  | ({ readonly kind: 'refused'; readonly reason: string } & SecretReference)
  | ({ readonly kind: 'pushed'; readonly version: string } & SecretReference)
  | ({ readonly kind: 'acked'; readonly version: string } & SecretReference)
  /** `detail` is scrubbed of anything that could be a key. */
  | ({ readonly kind: 'nacked'; readonly version: string; readonly detail: string } & SecretReference)
  /** A refused name beyond the rate at which refusals of one caller are reported with their name and reason. */
  | { readonly kind: 'refused-unnamed' }
  /** An ACK or NACK of a response that is not the last one. It is never answered. */
  | { readonly kind: 'stale' }

/** How many refused names of a caller are reported with their name: each is a line in the ledger and the log. */
export interface RefusalRate {
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
  /** Hears what the peer was sent and how it answered; absent where nobody asks. */
  readonly receipts: StreamReceipts | undefined
  /** Called when something became due outside `receive`. */
  wake(): void
  report(report: StreamReport): void
}

/** The protocol of one stream without its transport: requests in, the newest message out. */
export interface DiscoveryStream<Request> extends Disposable {
  /** The peer's node id, escaped; empty before the first request. */
  readonly nodeId: string
  readonly names: number
  /** Throws a `StreamRefusal` that ends the stream. */
  receive(request: Request): void
  /** Call after the permission changed. Returns `false` if the caller is no longer allowed a name that it was granted. */
  review(): boolean
  /** The one message that is to be sent now, or `undefined`. Whatever it carries counts as sent. */
  take(): DiscoveryMessage | undefined
}

/**
 * Beyond this many secrets in unanswered responses the oldest response is forgotten: a peer need not acknowledge anything.
 * The last response is remembered, however many secrets it has.
 */
const MAX_UNANSWERED = 64

interface SentMessage {
  readonly nonce: string
  readonly secrets: readonly SentSecret[]
}

/** Shared by all streams without unanswered responses; never written to. */
const NOTHING_UNANSWERED: readonly SentMessage[] = []

/** Which response a request answers. */
export class Acknowledgements {
  readonly #context: Pick<StreamContext, 'report' | 'receipts'>
  /** Oldest first; replaced, not changed, as it is nearly always empty. */
  #unanswered = NOTHING_UNANSWERED
  #lastNonce: string | undefined
  #lastNumber = 0

  constructor(context: Pick<StreamContext, 'report' | 'receipts'>) {
    this.#context = context
  }

  /** The number of the last message, 0 before the first. */
  get lastNumber(): number {
    return this.#lastNumber
  }

  sent({ number, nonce, secrets }: DiscoveryMessage): void {
    this.#lastNumber = number
    this.#lastNonce = nonce
    this.#unanswered = [...this.#remembered(secrets.length), { nonce, secrets }]
    for (const secret of secrets) {
      const { name, ledgerName, version } = secret
      this.#context.report({ kind: 'pushed', name, ledgerName, version })
      this.#context.receipts?.sent(secret)
    }
  }

  /** Reports an ACK or NACK; returns whether it answers the last response. */
  acknowledge(nonce: string, error: { readonly message: string } | undefined): boolean {
    const detail = error && scrubPeerText(error.message)
    for (const secret of this.#take(nonce)) this.#report(secret, detail)
    if (nonce === this.#lastNonce) return true
    this.#context.report({ kind: 'stale' })
    return false
  }

  #report(secret: SentSecret, detail: string | undefined): void {
    const { name, ledgerName, version } = secret
    if (detail === undefined) {
      this.#context.report({ kind: 'acked', name, ledgerName, version })
      this.#context.receipts?.accepted(secret)
    } else {
      this.#context.report({ kind: 'nacked', name, ledgerName, version, detail })
      this.#context.receipts?.rejected(secret, detail)
    }
  }

  /** The messages to remember beside one more response; an empty response counts, too. */
  #remembered(added: number): readonly SentMessage[] {
    let room = MAX_UNANSWERED - Math.max(1, added)
    let start = this.#unanswered.length
    for (; start > 0; start--) {
      room -= Math.max(1, this.#unanswered[start - 1]?.secrets.length ?? 0)
      if (room < 0) break
    }
    return start === 0 ? this.#unanswered : this.#unanswered.slice(start)
  }

  #take(nonce: string): readonly SentSecret[] {
    const message = this.#unanswered.find(sent => sent.nonce === nonce)
    if (!message) return []
    const rest = this.#unanswered.filter(sent => sent !== message)
    this.#unanswered = rest.length > 0 ? rest : NOTHING_UNANSWERED
    return message.secrets
  }
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
  if (!isNew && resolution.kind === 'granted') return true
  if (resolution.kind !== 'granted' && !context.budget.reportsRefusal()) {
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
  context.report({ kind: 'refused', ...reference, reason: resolution.reason })
  return false
}

/** Composes the responses of a stream, matches each ACK or NACK to its response by the unanswered nonces, and reports it. */
import type { StreamContext } from './discovery-protocol.ts'
import type { DiscoveryMessage, NamedSecret, SentSecret } from './response-content.ts'
import { scrubPeerText } from './scrub-peer-text.ts'
import type { Subscriptions } from './subscriptions.ts'

/**
 * The most secrets in unanswered responses before the oldest response is forgotten: a peer need not acknowledge anything.
 * The last response is remembered, however many secrets it has.
 */
const MAX_UNANSWERED = 64

interface SentMessage {
  readonly nonce: string
  readonly secrets: readonly SentSecret[]
  /** Milliseconds since the epoch. */
  readonly sentAt: number
}

/** Shared by all streams without unanswered responses; never written to. */
const NOTHING_UNANSWERED: readonly SentMessage[] = []

/** The unanswered responses of one stream. */
export class Acknowledgements {
  readonly #context: StreamContext
  readonly #subscriptions: Subscriptions
  /** Oldest first; replaced, not changed, as it is nearly always empty. */
  #unanswered = NOTHING_UNANSWERED
  #lastNonce: string | undefined
  #lastNumber = 0

  constructor(context: StreamContext, subscriptions: Subscriptions) {
    this.#context = context
    this.#subscriptions = subscriptions
  }

  /** The next response, which counts as sent. */
  compose(resources: readonly NamedSecret[], removed: readonly string[], isExpired?: boolean): DiscoveryMessage {
    const message = this.#context.shared.messages.compose(resources, removed, this.#lastNumber, isExpired)
    const { number, nonce, secrets } = message
    this.#lastNumber = number
    this.#lastNonce = nonce
    const sent = { nonce, secrets, sentAt: this.#context.shared.clock.now() }
    this.#unanswered = this.#unanswered.length === 0 ? [sent] : [...this.#remembered(secrets.length), sent]
    for (const secret of secrets) {
      const { name, ledgerName, version, bundle } = secret
      this.#context.record.report({ kind: 'pushed', name, ledgerName, version })
      if (bundle) this.#context.receipts?.sent(bundle)
    }
    return message
  }

  /** Reports an ACK or NACK; returns whether it answers the last response. */
  acknowledge(nonce: string, error: { readonly message: string } | undefined): boolean {
    const detail = error && scrubPeerText(error.message)
    const sent = this.#unanswered.find(each => each.nonce === nonce)
    if (sent) {
      const rest = this.#unanswered.length === 1 ? NOTHING_UNANSWERED : this.#unanswered.filter(each => each !== sent)
      this.#unanswered = rest
      for (const secret of sent.secrets) this.#report(secret, sent.sentAt, detail)
    }
    if (nonce === this.#lastNonce) return true
    this.#context.record.report({ kind: 'stale' })
    return false
  }

  #report(secret: SentSecret, sentAt: number, detail: string | undefined): void {
    const { name, ledgerName, version, bundle } = secret
    this.#subscriptions.answered(name, version, detail === undefined)
    if (detail === undefined) {
      const lagMs = Math.max(0, this.#context.shared.clock.now() - sentAt)
      this.#context.record.report({ kind: 'acked', name, ledgerName, version, lagMs })
      if (bundle) this.#context.receipts?.accepted(bundle)
    } else {
      this.#context.record.report({ kind: 'nacked', name, ledgerName, version, detail })
      if (bundle) this.#context.receipts?.rejected(bundle, detail)
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
}

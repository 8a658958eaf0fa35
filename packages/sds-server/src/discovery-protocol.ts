/** What the two forms of the xDS protocol share: messages, reports, and the nonces that are still unanswered. */
import { createHash } from 'node:crypto'
import type { SecretItem } from '@livery/core'
import { escapePeerName } from './escape-peer-name.ts'
import { scrubPeerText } from './scrub-peer-text.ts'
import { ledgerKey } from './secret-source.ts'
import type { NamedSecret, SecretView, Subscriptions } from './subscriptions.ts'

/** One response to be sent. */
export interface DiscoveryMessage {
  readonly nonce: string
  /** Of all its resources together: the version of a single one, or a hash of the versions. */
  readonly version: string
  readonly resources: readonly NamedSecret[]
  /** Only Delta can say that a resource is no more. */
  readonly removed: readonly string[]
}

/** A secret, under the name that was asked for, escaped, and under that of its ledger. */
export interface SecretReference {
  readonly name: string
  readonly key: string
}

/** What happened on a stream, for the ledger, logs and metrics. */
export type StreamReport =
  | ({ readonly kind: 'asked' } & SecretReference)
  | ({ readonly kind: 'refused'; readonly reason: string } & SecretReference)
  | ({ readonly kind: 'pushed'; readonly version: string } & SecretReference)
  | ({ readonly kind: 'acked'; readonly version: string } & SecretReference)
  /** `detail` is scrubbed of anything that could be a key. */
  | ({ readonly kind: 'nacked'; readonly version: string; readonly detail: string } & SecretReference)
  /** An ACK or NACK of a response that is not the last one. It is never answered. */
  | { readonly kind: 'stale' }

/** What a state machine of a stream stands on. */
export interface StreamContext {
  readonly view: SecretView
  /** How many names one stream may have. */
  readonly maxNames: number
  /** A nonce that no other response of this process, and hardly one of an earlier process, has. */
  nextNonce(): string
  /** Called when something became due outside `receive`. */
  wake(): void
  report(report: StreamReport): void
}

/** The protocol of one stream without its transport: requests in, the newest message out. */
export interface DiscoveryStream<Request> extends Disposable {
  /** As the peer calls itself, escaped; empty before the first request. */
  readonly nodeId: string
  readonly names: number
  /** Throws a `StreamRefusal` that ends the stream. */
  receive(request: Request): void
  /** The one message that is to be sent now, or `undefined`. Whatever it carries counts as sent. */
  take(): DiscoveryMessage | undefined
}

const MAX_COMBINED = 1_000
const combined = new Map<string, string>()

/** The version of several resources: it does not depend on their order. */
export function combinedVersion(resources: readonly NamedSecret[]): string {
  const [first] = resources
  if (first && resources.length === 1) return first.item.version
  const versions = resources.map(({ item }) => item.version)
  const all = versions.sort().join()
  const known = combined.get(all)
  if (known !== undefined) return known
  const version = createHash('sha256').update(all).digest('hex')
  // Streams ask for few combinations, over and over.
  if (combined.size >= MAX_COMBINED) combined.clear()
  combined.set(all, version)
  return version
}

/** Beyond this many unanswered responses the oldest is forgotten: a peer need not acknowledge anything. */
const MAX_UNANSWERED = 64

type SentSecret = SecretReference & { readonly version: string }

/** Which response a request answers. */
export class Acknowledgements {
  readonly #report: (report: StreamReport) => void
  readonly #unanswered = new Map<string, readonly SentSecret[]>()
  #lastNonce: string | undefined

  constructor(report: (report: StreamReport) => void) {
    this.#report = report
  }

  sent({ nonce, resources }: DiscoveryMessage): void {
    const secrets = resources.map(({ name, item }) => ({ name, key: itemKey(item), version: item.version }))
    this.#lastNonce = nonce
    this.#unanswered.set(nonce, secrets)
    if (this.#unanswered.size > MAX_UNANSWERED) {
      for (const oldest of this.#unanswered.keys()) {
        this.#unanswered.delete(oldest)
        break
      }
    }
    for (const secret of secrets) this.#report({ kind: 'pushed', ...secret })
  }

  /** Reports an ACK or NACK; returns whether it answers the last response. */
  settle(nonce: string, error: { readonly message: string } | undefined): boolean {
    const secrets = this.#unanswered.get(nonce) ?? []
    this.#unanswered.delete(nonce)
    const detail = error && scrubPeerText(error.message)
    for (const secret of secrets) {
      this.#report(detail === undefined ? { kind: 'acked', ...secret } : { kind: 'nacked', ...secret, detail })
    }
    if (nonce === this.#lastNonce) return true
    this.#report({ kind: 'stale' })
    return false
  }
}

/** Subscribes to a name and reports it if it is new; returns whether it can ever be answered with a secret. */
export function askAndReport(
  subscriptions: Subscriptions,
  name: string,
  held: string | undefined,
  report: (report: StreamReport) => void,
): boolean {
  const isNew = !subscriptions.has(name)
  const resolution = subscriptions.ask(name, held)
  const escaped = escapePeerName(name)
  const reference = { name: escaped, key: resolution.kind === 'refused' ? escaped : ledgerKey(resolution.secret) }
  if (isNew) report({ kind: 'asked', ...reference })
  if (resolution.kind === 'granted') return true
  report({ kind: 'refused', ...reference, reason: resolution.reason })
  return false
}

function itemKey(item: SecretItem): string {
  return item.kind === 'certificate' ? item.identity : ledgerKey(item)
}

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
/** What a secret was sent together with last: most streams ask for a certificate and its bundle. */
const pairs = new WeakMap<SecretItem, { readonly other: SecretItem; readonly version: string }>()

/** The version of several resources: it does not depend on their order. */
export function combinedVersion(resources: readonly NamedSecret[]): string {
  const [first, second] = resources
  if (first && resources.length === 1) return first.item.version
  if (!first || !second || resources.length > 2) return hashedVersion(resources)
  // A bundle goes with many certificates, each of which goes with one bundle.
  const [item, other] = first.item.kind === 'bundle' ? [second.item, first.item] : [first.item, second.item]
  const known = pairs.get(item)
  if (known?.other === other) return known.version
  const version = hashedVersion(resources)
  pairs.set(item, { other, version })
  return version
}

function hashedVersion(resources: readonly NamedSecret[]): string {
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

interface SentSecret extends SecretReference {
  readonly version: string
}

interface SentMessage {
  readonly nonce: string
  readonly secrets: readonly SentSecret[]
}

/** What every stream has that is answered in full; it is never written to. */
const NOTHING_UNANSWERED: readonly SentMessage[] = []

/** Which response a request answers. */
export class Acknowledgements {
  readonly #context: Pick<StreamContext, 'report'>
  /** Oldest first; replaced, not changed, as it is nearly always empty. */
  #unanswered = NOTHING_UNANSWERED
  #lastNonce: string | undefined

  constructor(context: Pick<StreamContext, 'report'>) {
    this.#context = context
  }

  sent({ nonce, resources }: DiscoveryMessage): void {
    const secrets = resources.map(({ name, item }) => ({ name, key: itemKey(item), version: item.version }))
    this.#lastNonce = nonce
    const kept = this.#unanswered.length < MAX_UNANSWERED ? this.#unanswered : this.#unanswered.slice(1)
    this.#unanswered = [...kept, { nonce, secrets }]
    for (const { name, key, version } of secrets) this.#context.report({ kind: 'pushed', name, key, version })
  }

  /** Reports an ACK or NACK; returns whether it answers the last response. */
  settle(nonce: string, error: { readonly message: string } | undefined): boolean {
    const detail = error && scrubPeerText(error.message)
    for (const { name, key, version } of this.#take(nonce)) {
      if (detail === undefined) this.#context.report({ kind: 'acked', name, key, version })
      else this.#context.report({ kind: 'nacked', name, key, version, detail })
    }
    if (nonce === this.#lastNonce) return true
    this.#context.report({ kind: 'stale' })
    return false
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
  context: Pick<StreamContext, 'report'>,
): boolean {
  const isNew = !subscriptions.has(name)
  const resolution = subscriptions.ask(name, held)
  if (!isNew && resolution.kind === 'granted') return true
  const escaped = escapePeerName(name)
  const reference = { name: escaped, key: resolution.kind === 'refused' ? escaped : ledgerKey(resolution.secret) }
  if (isNew) context.report({ kind: 'asked', ...reference })
  if (resolution.kind === 'granted') return true
  context.report({ kind: 'refused', ...reference, reason: resolution.reason })
  return false
}

/** A key that is put together for each response is hashed for each, too. */
const bundleKeys = new WeakMap<SecretItem, string>()

function itemKey(item: SecretItem): string {
  if (item.kind === 'certificate') return item.identity
  const known = bundleKeys.get(item)
  if (known !== undefined) return known
  const key = ledgerKey(item)
  bundleKeys.set(item, key)
  return key
}

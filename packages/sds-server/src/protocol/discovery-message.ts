/** Responses to be sent: their resources, version and nonce, shared by the streams that get the same. */
import { hash } from 'node:crypto'
import type { SecretItem, TrustBundleSecret } from '@livery/core'
import type { DiscoveryMessage, NamedSecret } from './response-content.ts'

/** Puts the messages of a server together. A thousand streams that get the same secret get the same message. */
export class MessageComposer {
  readonly #epoch: string
  #lastNumber = 0
  /** The newest by its certificate, or its first resource: a certificate is sent with one bundle, but a bundle with many certificates. */
  readonly #newest = new WeakMap<SecretItem, { -readonly [K in keyof DiscoveryMessage]: DiscoveryMessage[K] }>()

  /** Nonces begin with `epoch`, so that a peer that outlived an earlier process cannot repeat one of ours. */
  constructor(epoch: string) {
    this.#epoch = epoch
  }

  /** A message with a higher number than `after`, the stream's last: so a stream never gets the same nonce twice. */
  compose(
    resources: readonly NamedSecret[],
    removed: readonly string[],
    after: number,
    isExpired = false,
  ): DiscoveryMessage {
    const { item } = resources.find(each => each.item.kind === 'certificate') ?? resources[0] ?? {}
    const newest = item && this.#newest.get(item)
    const same = newest && isSame(newest.resources, resources) ? newest : undefined
    if (same && same.number > after && removed.length === 0) {
      same.isShared = true
      return same
    }
    const number = ++this.#lastNumber
    const message = {
      number,
      nonce: `${this.#epoch}-${number.toString(36)}`,
      version: same?.version ?? combinedVersion(resources),
      resources,
      removed,
      isExpired,
      secrets: resources.map(each => ({
        name: each.name,
        ledgerName: each.item.name,
        version: each.item.version,
        bundle: ownBundleOf(each.item),
      })),
      isShared: false,
    }
    if (item && removed.length === 0) this.#newest.set(item, message)
    return message
  }
}

/** The bundle in an item: the agent's own, whose arrival at clients core waits for, or another trust domain's. */
function ownBundleOf(item: SecretItem): TrustBundleSecret | undefined {
  if (item.kind === 'bundle') return item
  return item.kind === 'all-bundles' ? item.own : undefined
}

function isSame(a: readonly NamedSecret[], b: readonly NamedSecret[]): boolean {
  return a.length === b.length && a.every(({ name, item }, index) => name === b[index]?.name && item === b[index].item)
}

/** The version of several resources: it does not depend on their order. */
export function combinedVersion(resources: readonly NamedSecret[]): string {
  const [first] = resources
  if (first && resources.length === 1) return first.item.version
  const versions = resources.map(({ item }) => item.version)
  return hash('sha256', versions.sort().join())
}

/** Holds the identities of this node's pods while the pods exist. */
import type { CertificateWish, SecretManager } from '@livery/core'
import { after, type Clock, MAX_DNS_NAMES, type SpiffeId } from '@livery/core/plugin'
import type { SdsServer } from '@livery/sds-server'
import { type WishSetting, wishOf } from '../config/wish-schema.ts'
import type { NodePods, PodProblem } from './node-pods.ts'
import type { Pod } from './pod.ts'

/** The identities of pods, each with the requested content of its certificate. */
type WishedIdentities = ReadonlyMap<SpiffeId, { readonly wish: CertificateWish | undefined }>

/** The parts that hold and serve the identities. */
export interface IdentityHolder {
  readonly union: {
    replace(source: 'kubernetes', identities: WishedIdentities): { readonly added: readonly SpiffeId[] }
  }
  readonly secrets: Pick<SecretManager, 'retry'>
  readonly sds: Pick<SdsServer, 'review'>
}

interface PodIdentitiesOptions extends IdentityHolder {
  readonly pods: Pick<NodePods, 'all' | 'isListed' | 'changes'>
  readonly clock: Clock
  /** Applies to every pod; the DNS names come from the pods. */
  readonly wish: WishSetting
  /** Called once for a pod whose DNS names do not fit into the certificate of its identity. */
  readonly onProblem: (problem: PodProblem) => void
}

/** Changes within this time are one change: 500 pods can arrive at once. */
const PACE_MS = 100

export class PodIdentities implements Disposable {
  readonly #options: PodIdentitiesOptions
  readonly #subscription: Disposable
  readonly #listed = Promise.withResolvers<void>()
  /** Pods that were reported; a change makes a new object. */
  readonly #crowded = new WeakSet<Pod>()
  #next: Disposable | undefined
  #followedAt = Number.NEGATIVE_INFINITY

  constructor(options: PodIdentitiesOptions) {
    this.#options = options
    const { pods, secrets } = options
    this.#subscription = pods.changes.subscribe(({ kind, pod: { identity } }) => {
      // A configured identity may wait for the token of this pod.
      if (kind === 'added' && identity) secrets.retry(identity)
      this.#followSoon()
    })
    for (const { identity } of pods.all()) if (identity) secrets.retry(identity)
    this.#followSoon()
  }

  /** Resolves when the identities of the first listed pods are held. */
  get listed(): Promise<void> {
    return this.#listed.promise
  }

  /** The identities stay held. */
  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]()
    this.#next?.[Symbol.dispose]()
  }

  #followSoon(): void {
    const { clock } = this.#options
    this.#next ??= after(clock, Math.max(0, this.#followedAt + PACE_MS - clock.now()), () => {
      this.#next = undefined
      this.#followedAt = clock.now()
      this.#follow()
    })
  }

  #follow(): void {
    const { pods, union, sds } = this.#options
    // Pods are missing before the first list, which means nothing.
    if (!pods.isListed) return
    const { added } = union.replace('kubernetes', this.#identities())
    // Callers of shared sockets may already have asked in vain.
    if (added.length > 0) sds.review()
    this.#listed.resolve()
  }

  /** Pods that share an identity share its names. */
  #identities(): WishedIdentities {
    const names = new Map<SpiffeId, Set<string>>()
    for (const pod of this.#options.pods.all()) {
      if (pod.identity === undefined) continue
      const present = names.get(pod.identity) ?? new Set<string>()
      const together = new Set([...present, ...pod.dnsNames])
      const hasRoom = together.size <= MAX_DNS_NAMES
      names.set(pod.identity, hasRoom ? together : present)
      if (!hasRoom) this.#reportCrowded(pod)
    }
    const { ttl, keyType } = this.#options.wish
    const held = (dnsNames: ReadonlySet<string>) => ({ wish: wishOf({ ttl, keyType, dnsNames: [...dnsNames].sort() }) })
    return new Map(Array.from(names, ([identity, dnsNames]) => [identity, held(dnsNames)]))
  }

  #reportCrowded(pod: Pod): void {
    if (this.#crowded.has(pod)) return
    this.#crowded.add(pod)
    const reason = `the certificate of ${pod.identity} would have more than ${MAX_DNS_NAMES} names`
    this.#options.onProblem({ pod: `${pod.namespace}/${pod.name}`, dnsName: pod.dnsNames.join(', '), reason })
  }
}

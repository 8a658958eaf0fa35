/** Holds the identities of the pods of this node, which come and go with them. */
import type { SecretManager } from '@livery/core'
import { after, type Clock, type SpiffeId } from '@livery/core/plugin'
import type { SdsServer } from '@livery/sds-server'
import type { NodePods } from './node-pods.ts'

/** The parts that hold and serve the identities. */
export interface IdentityHolder {
  readonly union: {
    replace(source: 'kubernetes', identities: ReadonlyMap<SpiffeId, object>): { readonly added: readonly SpiffeId[] }
  }
  readonly secrets: Pick<SecretManager, 'retry'>
  readonly sds: Pick<SdsServer, 'review'>
}

interface PodIdentitiesOptions extends IdentityHolder {
  readonly pods: Pick<NodePods, 'all' | 'isListed' | 'changes'>
  readonly clock: Clock
}

/** Changes within this time are one change: 500 pods can arrive at once. */
const PACE_MS = 100

export class PodIdentities implements Disposable {
  readonly #options: PodIdentitiesOptions
  readonly #subscription: Disposable
  readonly #listed = Promise.withResolvers<void>()
  #next: Disposable | undefined
  #followedAt = Number.NEGATIVE_INFINITY

  constructor(options: PodIdentitiesOptions) {
    this.#options = options
    const { pods, secrets } = options
    this.#subscription = pods.changes.subscribe(({ kind, pod: { identity } }) => {
      // Its token may be the one that an identity of the configuration waits for.
      if (kind === 'added' && identity) secrets.retry(identity)
      this.#followSoon()
    })
    for (const { identity } of pods.all()) if (identity) secrets.retry(identity)
    this.#followSoon()
  }

  /** Resolves when the identities of the pods that were listed first are held. */
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
    // Before the first list a missing pod means nothing.
    if (!pods.isListed) return
    const identities = new Map<SpiffeId, object>()
    for (const { identity } of pods.all()) if (identity !== undefined) identities.set(identity, {})
    const { added } = union.replace('kubernetes', identities)
    // Callers of shared sockets may already have asked in vain.
    if (added.length > 0) sds.review()
    this.#listed.resolve()
  }
}

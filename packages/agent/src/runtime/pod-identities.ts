/** Holds the identities of the pods of this node, which come and go with them. */
import { after, type Clock, type SpiffeId } from '@livery/core'
import type { SdsServer } from '@livery/sds-server'
import type { NodePods } from '../kubernetes/node-pods.ts'
import type { HeldIdentity, IdentityUnion } from './identity-union.ts'

interface PodIdentitiesOptions {
  readonly pods: Pick<NodePods, 'all' | 'isListed' | 'changes'>
  readonly union: Pick<IdentityUnion, 'replace'>
  readonly sds: Pick<SdsServer, 'review'>
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
    this.#subscription = options.pods.changes.subscribe(() => this.#followSoon())
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
    const identities = new Map<SpiffeId, HeldIdentity>()
    for (const { identity } of pods.all()) if (identity !== undefined) identities.set(identity, {})
    const { added } = union.replace('kubernetes', identities)
    // Callers of shared sockets may already have asked in vain.
    if (added.length > 0) sds.review()
    this.#listed.resolve()
  }
}

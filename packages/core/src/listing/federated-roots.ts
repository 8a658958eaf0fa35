/** The roots of other trust domains that the CA lists: each trust domain is a source beside the operator's sources. */

import type { RootListener, RootSource } from '../contract/root-source.ts'
import { MAX_TRUST_DOMAINS } from '../trust/bundle-table.ts'

/** Half of the places stay free for trust domains that the operator names, now or in a later configuration. */
const MAX_FEDERATED = MAX_TRUST_DOMAINS / 2

export class FederatedRoots {
  /** The agent's own, whose roots the CA lists separately. */
  readonly #trustDomain: string
  readonly #listed = new Map<string, ListedRoots>()

  constructor(trustDomain: string) {
    this.#trustDomain = trustDomain
  }

  get sources(): readonly RootSource[] {
    return [...this.#listed.values()]
  }

  /** Takes a complete list of the CA. Returns whether its trust domains differ from the previous list's. */
  take(bundles: ReadonlyMap<string, readonly string[]>): boolean {
    const wanted = [...bundles].filter(([trustDomain]) => trustDomain !== this.#trustDomain).slice(0, MAX_FEDERATED)
    const gone = new Set(this.#listed.keys())
    let hasChanged = false
    for (const [trustDomain, roots] of wanted) {
      gone.delete(trustDomain)
      const present = this.#listed.get(trustDomain)
      if (present) present.list(roots)
      else this.#listed.set(trustDomain, new ListedRoots(trustDomain, roots))
      hasChanged ||= !present
    }
    for (const trustDomain of gone) this.#listed.delete(trustDomain)
    return hasChanged || gone.size > 0
  }
}

class ListedRoots implements RootSource {
  readonly trustDomain: string
  readonly name = 'the CA'
  #roots: readonly string[]
  #listener: RootListener | undefined

  constructor(trustDomain: string, roots: readonly string[]) {
    this.trustDomain = trustDomain
    this.#roots = roots
  }

  list(roots: readonly string[]): void {
    const isSame = roots.length === this.#roots.length && roots.every((root, index) => root === this.#roots[index])
    this.#roots = roots
    if (!isSame) this.#listener?.listed(roots)
  }

  open(listener: RootListener): Disposable {
    this.#listener = listener
    listener.listed(this.#roots)
    return {
      [Symbol.dispose]: () => {
        this.#listener = undefined
      },
    }
  }
}

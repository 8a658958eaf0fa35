/** All that names roots and revocation lists: the CA's list, the operator's sources, the CA's lists of other trust domains. */

import type { RootSource } from './contract/root-source.ts'
import type { Event } from './decide/step.ts'
import { CARootList, type CARootListOptions } from './listing/ca-root-list.ts'
import { ConfiguredRoots } from './listing/configured-roots.ts'
import { CrlSources } from './listing/crl-sources.ts'
import { FederatedRoots } from './listing/federated-roots.ts'

export interface RootFeedsOptions extends Omit<CARootListOptions, 'onListed' | 'onFederated'> {
  readonly dispatch: (event: Event) => void
}

export class RootFeeds implements Disposable {
  readonly caList: CARootList
  readonly configured: ConfiguredRoots
  readonly #federated: FederatedRoots
  readonly crls: CrlSources
  /** The operator's. */
  #sources: readonly RootSource[] = []

  constructor({ dispatch, ...options }: RootFeedsOptions) {
    const { clock, reader, record, trustDomain } = options
    this.configured = new ConfiguredRoots(clock, reader, record, (domain, roots) =>
      dispatch({ kind: 'rootsConfigured', trustDomain: domain, roots }),
    )
    this.#federated = new FederatedRoots(trustDomain)
    this.crls = new CrlSources({
      clock,
      record,
      read: (domain, crls, source) => dispatch({ kind: 'crlsRead', trustDomain: domain, crls, source }),
    })
    this.caList = new CARootList({
      ...options,
      onListed: read => dispatch({ kind: 'rootsListed', read }),
      onFederated: async bundles => {
        if (this.#federated.take(bundles)) await this.useRoots(this.#sources)
      },
    })
  }

  /** Replaces the operator's sources; one that is given again stays open. Resolves when the lists known by then are trusted. */
  useRoots(sources: readonly RootSource[]): Promise<void> {
    this.#sources = sources
    return this.configured.use([...sources, ...this.#federated.sources])
  }

  /** Reads the operator's roots, then asks the CA. */
  start(sources: readonly RootSource[]): void {
    this.caList.start(sources.length === 0 ? Promise.resolve() : this.useRoots(sources))
  }

  [Symbol.dispose](): void {
    for (const part of [this.caList, this.configured, this.crls]) part[Symbol.dispose]()
  }
}

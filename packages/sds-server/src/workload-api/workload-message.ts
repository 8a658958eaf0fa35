/** The messages to a stream of the Workload API: each is complete. */
import type { AllBundlesSecret, CertificateSecret } from '@livery/core'
import { type SpiffeId, trustDomainOf } from '@livery/core/plugin'

/** An identity with its certificate. */
export interface Svid {
  readonly identity: SpiffeId
  readonly item: CertificateSecret
}

export interface WorkloadMessage {
  /** The version of the whole content: equal versions mean equal messages. */
  readonly version: string
  /** The default identity first; empty in a message that has only bundles. */
  readonly svids: readonly Svid[]
  /** The bundles of all trust domains, including each SVID's. */
  readonly bundles: AllBundlesSecret
}

/** `undefined` if a bundle is missing that has to be in it. */
export function composeMessage(svids: readonly Svid[], bundles: AllBundlesSecret): WorkloadMessage | undefined {
  const has = (identity: SpiffeId) => bundles.bundles.some(each => each.trustDomain === trustDomainOf(identity))
  const isWhole = svids.length > 0 ? svids.every(({ identity }) => has(identity)) : bundles.own !== undefined
  if (!isWhole) return undefined
  const version = [
    bundles.version,
    ...svids.map(({ identity, item }) => `${identity} ${item.version} ${item.hint ?? ''}`),
  ].join()
  return { version, svids, bundles }
}

/** As `composeMessage`, for a stream that sends the names of the trust domains without their roots. */
export function composeTrustDomains(bundles: AllBundlesSecret): WorkloadMessage | undefined {
  if (!bundles.own) return undefined
  return { version: bundles.bundles.map(({ trustDomain }) => trustDomain).join(), svids: [], bundles }
}

/** Where the server takes its secrets from: the few methods of core's SecretManager that it needs. */
import type { Receipts, SecretItem, SecretName, SpiffeId, Watch } from '@livery/core'

/** Implemented by core's SecretManager. Nothing here waits: a watch reports what is not there yet. */
export interface SecretSource {
  readonly trustDomain: string
  /** Hears what each live stream was sent and how its peer answered. Default: nobody asks. */
  readonly receipts?: Receipts
  /** An identity that was added, or a bundle that is held. */
  knows(name: SecretName): boolean
  identities(): Iterable<SpiffeId>
  /**
   * Calls `listener` with each new version, and with `undefined` when it is withdrawn; never inside this call. A name
   * that is not known yet may be watched; `request()` of its watch has it issued on demand.
   */
  watch(name: SecretName, listener: (item: SecretItem | undefined) => void): Watch
}

/** The name under which a secret has its ledger: the SPIFFE ID of the identity or of the trust domain. */
export function ledgerName(name: SecretName): string {
  return name.kind === 'identity' ? name.identity : `spiffe://${name.trustDomain}`
}

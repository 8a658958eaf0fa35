/** What happens to the trust bundles, for those who plan the leaves under them. */

import type { Learned, TrustBundle } from './trust-bundle.ts'

/** `givenUp` and `revoked` are fingerprints. */
export interface RootMoves extends Pick<Learned, 'added' | 'givenUp'> {
  /** Leaves under these are replaced at once, those under others that are given up in turn. */
  readonly revoked: readonly string[]
}

export type TrustEvent =
  /** The CA named roots, or the CA or the operator lists some no longer: leaves under those are to be replaced. */
  | { readonly kind: 'rootsMoved'; readonly bundle: TrustBundle; readonly moves: RootMoves }
  /** Leaves under a root that was announced may be served. */
  | { readonly kind: 'rootTrusted'; readonly bundle: TrustBundle; readonly fingerprint: string }
  /** The roots of a bundle have changed, with the new ones in force. */
  | { readonly kind: 'bundlePublished'; readonly bundle: TrustBundle }
  /** The revocation lists of a trust domain have changed. */
  | { readonly kind: 'crlChanged'; readonly trustDomain: string }

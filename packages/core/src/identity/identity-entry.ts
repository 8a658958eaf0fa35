/** One identity as the manager reports it: its state, what it has, and why it has nothing better. */

import type { CAErrorCode } from '../contract/ca-client.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { CertificateSecret } from './secret-item.ts'

/** An identity as the manager reports it. */
export interface IdentityEntry {
  readonly identity: SpiffeId
  /**
   * `initializing`: never had one and no CA error yet; `unavailable`: has none now; `idle`: needs none until somebody
   * watches it.
   */
  readonly state: 'initializing' | 'available' | 'unavailable' | 'idle'
  readonly hold: 'pinned' | 'on-demand' | 'removed'
  readonly secret: CertificateSecret | undefined
  readonly root: TrustAnchor | undefined
  readonly addedAt: number
  /** When it is renewed or tried next; `undefined` while a request is queued or in flight. */
  readonly renewAt: number | undefined
  readonly lastSuccessAt: number | undefined
  readonly lastFailure: { readonly at: number; readonly code: CAErrorCode; readonly message: string } | undefined
  /**
   * Clients would refuse, with the roots that they are served, the certificate in use (`isServed`) or the last one that
   * was to replace it.
   */
  readonly preflight: { readonly reason: string; readonly isServed: boolean } | undefined
}

/** A certificate that was checked, with its key and the root it ends under. */

import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { CertificateSecret } from './secret-item.ts'

/**
 * Where a certificate comes from: a CA that signed or, with the key, a source that `brought` it; the previous process; an
 * operator, until there is another.
 */
export type Source = 'signed' | 'brought' | 'store' | 'bootstrap'

/** A checked certificate, which keeps its root in the bundle until it is released. */
export interface Issued {
  readonly source: Source
  /** When it came from the CA, milliseconds since the epoch. */
  readonly receivedAt: number
  /** Of its renewal: where in the window it is planned, in [0, 1). */
  readonly phase: number
  readonly secret: CertificateSecret
  readonly root: TrustAnchor
  /** The same for certificates of the same root, intermediates and size of key: a client takes all of a kind, or none. */
  readonly kind: string
  /** Why clients would refuse it with the roots known when it came: it is served for want of a better one. */
  readonly clientRefusal?: string | undefined
  /** Wipes the key and lets go of the root. */
  release(): void
}

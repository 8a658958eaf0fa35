/** How a server reports what became of the secrets on its live streams: sent, accepted, rejected. Core knows no protocol. */

import type { TrustBundleSecret } from './secret-item.ts'

/** One version of a secret, as a stream got it. */
export interface SentVersion {
  /** The name that it is listed under, such as the SPIFFE ID of the identity or of the trust domain. */
  readonly ledgerName: string
  readonly version: string
  /** Absent of a certificate. */
  readonly bundle?: TrustBundleSecret | undefined
}

/** One live stream. Disposing it says that the stream is closed: it counts no longer. */
export interface StreamReceipts extends Disposable {
  /** It is on its way. */
  sent(secret: SentVersion): void
  accepted(secret: SentVersion): void
  /** `reason` is the peer's own text, scrubbed and escaped. */
  rejected(secret: SentVersion, reason: string): void
}

/** Implemented by the SecretManager, called by a server. */
export interface Receipts {
  /** A stream that was opened. `client` says who is at its other end, for people. */
  open(client: () => string): StreamReceipts
}

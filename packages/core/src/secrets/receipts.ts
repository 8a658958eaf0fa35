/** How a server reports the fate of trust bundles on its live streams: sent, accepted, rejected. Core knows no protocol. */

import type { TrustBundleSecret } from './secret-item.ts'

/** One live stream. Disposing it reports that the stream is closed. */
export interface StreamReceipts extends Disposable {
  /** It is on its way. */
  sent(bundle: TrustBundleSecret): void
  accepted(bundle: TrustBundleSecret): void
  /** `reason` is the peer's own text, scrubbed and escaped. */
  rejected(bundle: TrustBundleSecret, reason: string): void
}

/** Implemented by the SecretManager, called by a server. */
export interface Receipts {
  /** A stream that was opened. `client` says who is at its other end, for people. */
  open(client: () => string): StreamReceipts
}

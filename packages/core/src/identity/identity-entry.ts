/** One identity as the manager reports it: its state, what it has, and why it has nothing better. */

import type { CAErrorCode } from '../contract/ca-client.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { CertificateSecret } from './secret-item.ts'

/**
 * Where an identity is in its life. There is no other state:
 *
 * - `initializing`: its first certificate is on the way, or the first one after it was idle. It has none.
 * - `available`: its certificate is served, and the renewal is planned.
 * - `renewing`: its certificate is served, and the next one is requested.
 * - `failing`: the last attempt to get a certificate failed. The previous certificate is served until it ends; an identity
 *   that never had one has none.
 * - `expired`: its certificate ended before the next one came. It has none.
 * - `idle`: it needs none until somebody watches it.
 * - `forgotten`: it is no longer held.
 */
export const IDENTITY_STATES = [
  'initializing',
  'available',
  'renewing',
  'failing',
  'expired',
  'idle',
  'forgotten',
] as const

export type IdentityState = (typeof IDENTITY_STATES)[number]

/** An identity as the manager reports it. */
export interface IdentityEntry {
  readonly identity: SpiffeId
  readonly state: IdentityState
  readonly hold: 'pinned' | 'on-demand' | 'removed'
  readonly secret: CertificateSecret | undefined
  readonly root: TrustAnchor | undefined
  readonly addedAt: number
  /** When it is renewed or tried next; `undefined` while a request is queued or in flight. */
  readonly renewAt: number | undefined
  readonly lastSuccessAt: number | undefined
  /** The newest failure, also of an identity that has succeeded since. */
  readonly lastFailure: { readonly at: number; readonly code: CAErrorCode; readonly message: string } | undefined
  /** When the first of its failures in a row came; `undefined` unless the last attempt failed. */
  readonly failingSince: number | undefined
  /**
   * Clients would refuse, with the roots that they are served, the certificate in use (`isServed`) or the last one that
   * was to replace it.
   */
  readonly preflight: { readonly reason: string; readonly isServed: boolean } | undefined
}

/** One identity as the manager reports it: its state, what it has, and why it has nothing better. */

import { CA_ERROR_CODES, type CAErrorCode } from '../contract/ca-client.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { CertificateSecret } from './secret-item.ts'

/**
 * Where an identity is in its life. There is no other state:
 *
 * - `initializing`: its first certificate is on the way, or the first one after it was idle. It has none.
 * - `available`: its certificate is served, and the renewal is planned.
 * - `renewing`: its certificate is served, and the next one is requested.
 * - `failing`: the last attempt to get a certificate failed, or the certificate in use is revoked. The previous certificate is
 *   served until it ends or a better one comes; an identity that never had one has none.
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

/** Why an identity fails: the code of the CA's error, or `revoked` while its certificate in use is, whatever the CA says. */
export type FailureCode = CAErrorCode | 'revoked'

export const FAILURE_CODES: readonly FailureCode[] = [...CA_ERROR_CODES, 'revoked']

/** An identity as the manager reports it. */
export interface IdentityEntry {
  readonly identity: SpiffeId
  readonly state: IdentityState
  readonly hold: 'pinned' | 'on-demand' | 'removed'
  readonly secret: CertificateSecret | undefined
  readonly root: TrustAnchor | undefined
  /** When the CA gave `secret`; a newer one may wait for its time. `undefined` for one that an operator placed. */
  readonly receivedAt: number | undefined
  readonly addedAt: number
  /** When it is renewed or tried next; `undefined` while a request is queued or in flight. */
  readonly renewAt: number | undefined
  readonly lastSuccessAt: number | undefined
  /** The newest failure, also of an identity that has succeeded since. `local`: the cause is on this node, and says nothing of the CA. */
  readonly lastFailure:
    | { readonly at: number; readonly code: FailureCode; readonly message: string; readonly local?: boolean }
    | undefined
  /** When the first of its failures in a row came; `undefined` unless the last attempt failed, or its certificate is revoked. */
  readonly failingSince: number | undefined
  /**
   * Clients would refuse, with the roots that they are served, the certificate in use (`isServed`) or the last one that
   * was to replace it.
   */
  readonly preflight: { readonly reason: string; readonly isServed: boolean } | undefined
}

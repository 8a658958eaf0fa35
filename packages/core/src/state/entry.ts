/** An identity as the manager reports it: its state, its certificate, and why it has no better one. */

import { CA_ERROR_CODES, type CAErrorCode } from '../contract/ca-client.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { CertificateSecret } from '../secrets/certificate-secret.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { type Failure, type Identity, lastsUntil, usable } from './identity.ts'

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
 * - `forgotten`: it is not kept any more.
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

/** Why an identity fails: the code of the CA's error, or `revoked`, which takes precedence, while its certificate in use is. */
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
  /** When its last certificate ends if the CA issues no more; `undefined` while it has none that peers accept. */
  readonly lastsUntil: number | undefined
  readonly addedAt: number
  /** When it is renewed or tried next. `undefined` while a request is in flight, or queued at a CA that is up. */
  readonly renewAt: number | undefined
  readonly lastSuccessAt: number | undefined
  /**
   * The newest failure, also of an identity that has succeeded since. `local`: the cause is on this node, and says nothing of the CA.
   * `deferred`: another CA could issue, and is asked from then on (milliseconds since the epoch).
   */
  readonly lastFailure: (Omit<Failure, 'code'> & { readonly code: FailureCode }) | undefined
  /** When the first of its failures in a row came; `undefined` unless the last attempt failed, or its certificate is revoked. */
  readonly failingSince: number | undefined
  /**
   * Clients would refuse, with the roots that they are served, the certificate in use (`isServed`) or the last one that
   * was to replace it.
   */
  readonly preflight: { readonly reason: string; readonly isServed: boolean } | undefined
}

/** `nextProbeAt`: when the queue moves on while the CA is down. */
export function toEntry(identity: Identity, now: number, nextProbeAt: number | undefined): IdentityEntry {
  const issued = usable(identity, now)
  return {
    identity: identity.id,
    state: stateOf(identity, now),
    hold: identity.keep.kind,
    secret: issued?.secret,
    root: issued?.root,
    receivedAt: issued?.source === 'bootstrap' ? undefined : issued?.receivedAt,
    lastsUntil: lastsUntil(identity, now),
    addedAt: identity.addedAt,
    renewAt: renewAt(identity, nextProbeAt),
    lastSuccessAt: identity.lastSuccessAt,
    ...failureOf(identity, now),
    preflight: preflightOf(identity, now),
  }
}

function stateOf(identity: Identity, now: number): IdentityState {
  const { work, health, current, hasExpired } = identity
  if (work.kind === 'idle' || work.kind === 'forgotten') return work.kind
  const isUsable = usable(identity, now) !== undefined
  if (hasExpired || (current && !isUsable)) return 'expired'
  if (health.kind === 'failing' || revocationOf(identity, now)) return 'failing'
  if (!isUsable) return 'initializing'
  return work.kind === 'queued' || work.kind === 'fetching' ? 'renewing' : 'available'
}

function renewAt({ work }: Identity, nextProbeAt: number | undefined): number | undefined {
  if (work.kind === 'waiting') return work.due
  return work.kind === 'queued' ? nextProbeAt : undefined
}

function revocationOf(identity: Identity, now: number): Identity['revoked'] {
  return usable(identity, now) && identity.revoked
}

/** The revocation of the certificate in use takes precedence over the CA's failures. */
function failureOf(identity: Identity, now: number): Pick<IdentityEntry, 'lastFailure' | 'failingSince'> {
  const { health, lastFailure } = identity
  const failingSince = health.kind === 'failing' ? health.since : undefined
  const revocation = revocationOf(identity, now)
  if (!revocation) return { lastFailure, failingSince }
  const isNewer = failingSince !== undefined && lastFailure && lastFailure.at >= revocation.since
  const attempt = isNewer ? `. The last attempt to replace it failed (${lastFailure.code}): ${lastFailure.message}` : ''
  const message = `peers refuse the certificate in use: ${revocation.reason}${attempt}`
  return {
    lastFailure: { at: isNewer ? lastFailure.at : revocation.since, code: 'revoked', message },
    failingSince: Math.min(revocation.since, failingSince ?? revocation.since),
  }
}

function preflightOf(identity: Identity, now: number): IdentityEntry['preflight'] {
  const reason = usable(identity, now)?.clientRefusal
  if (reason !== undefined) return { reason, isServed: true }
  return identity.withheld === undefined ? undefined : { reason: identity.withheld, isServed: false }
}

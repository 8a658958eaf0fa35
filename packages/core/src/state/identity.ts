/** One identity that is kept, and its certificates: plain data. Only `decide` changes it. */

import type { CAError, CAErrorCode, CertificateRequest } from '../contract/ca-client.ts'
import type { FailureKind } from '../contract/ca-failure.ts'
import type { CertificateWish } from '../contract/certificate-wish.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { CertificateSecret } from '../secrets/certificate-secret.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'

/** Urgencies in order: somebody waits; it has no certificate yet; its certificate is still valid; it failed alone. */
export type Urgency = 'on-demand' | 'first' | 'renewal' | 'retry'

/** Why a request is made. Its {@link Urgency} says how soon. */
export type Reason = Extract<SecretEvent, { kind: 'csr-sent' }>['reason']

/** Why an identity is kept: it was added, somebody requested it, or it was removed and its grace period lasts. */
export type Keep =
  | { readonly kind: 'pinned' }
  | { readonly kind: 'on-demand' }
  /** `until`: milliseconds since the epoch, as all times here. */
  | { readonly kind: 'removed'; readonly until: number }

/** One call to the CA. */
export interface Request {
  readonly of: Identity
  readonly reason: Reason
  readonly urgency: Urgency
  /** Follows a clock that is set back, since no request was sent in the future. */
  sentAt: number
  /** See {@link CertificateRequest.connectWithinMs}. */
  readonly connectWithinMs: number | undefined
  readonly ttlSeconds: number
  readonly tokenFile: string | undefined
  readonly wish: CertificateWish
  readonly replaces: CertificateRequest['replaces']
  /** See {@link Issued.slot}. */
  readonly slot: number
}

/** The plan for the next certificate. An identity that is wanted always has one. */
export type Work =
  /** `urgency`: the request's, if nothing is found. `isOutdated`: the CA has since reported a newer one. */
  | { readonly kind: 'restoring'; readonly urgency: RestoreUrgency; readonly isOutdated: boolean }
  | { readonly kind: 'waiting'; readonly due: number; readonly reason: Reason }
  | { readonly kind: 'queued'; readonly reason: Reason }
  | { readonly kind: 'fetching'; readonly request: Request }
  | { readonly kind: 'idle' }
  | { readonly kind: 'forgotten' }

export type RestoreUrgency = Extract<Urgency, 'on-demand' | 'first'>

/** How the last attempt ended. */
export type Health =
  | { readonly kind: 'ok' }
  | {
      readonly kind: 'failing'
      /** The time of the first failure in a row. */
      readonly since: number
      readonly cause: FailureKind
      /** It failed at least once for a cause that others may not share. */
      readonly failedAlone: boolean
      /** How often others succeeded meanwhile. */
      readonly contradictions: number
    }

export interface Failure {
  readonly at: number
  readonly code: CAErrorCode
  readonly message: string
  readonly local?: boolean
  /** See {@link CAError.deferred}. */
  readonly deferred?: number
}

/**
 * The origin of a certificate: a CA that `signed` it; a source that `brought` it with its key; the previous process
 * (`store`); an operator, until another comes (`bootstrap`).
 */
export type Source = 'signed' | 'brought' | 'store' | 'bootstrap'

/** A checked certificate, which keeps its root in the bundle until it is released. */
export interface Issued {
  readonly source: Source
  /** When it came from the CA, milliseconds since the epoch. */
  readonly receivedAt: number
  /** The place of its renewal in the window, in [0, 1). */
  readonly slot: number
  /** The text of the wish by which it was asked for. */
  readonly wish: string
  readonly secret: CertificateSecret
  /** Its root, and the bundle that holds it. */
  readonly root: TrustAnchor
  readonly bundle: TrustBundle
  /** Why clients would refuse it with the roots known when it came: no better certificate exists. */
  readonly clientRefusal: string | undefined
}

export interface Identity {
  readonly id: SpiffeId
  readonly addedAt: number
  /** Its random number in [0, 1), which stays while the process runs: its place in a window of time. */
  readonly slot: number
  tokenFile: string | undefined
  wish: CertificateWish
  /** The lifetime that it asks for since the CA refused the wished one as too long, seconds. */
  loweredTtlSeconds: number | undefined
  keep: Keep
  work: Work
  health: Health
  /** Failures in a row that lengthen its backoff. */
  backoffs: number
  lastSuccessAt: number | undefined
  /** Kept even after a later success. */
  lastFailure: Failure | undefined
  /** When it was last told to ask again, since a cause that it seemed to share had ended. */
  askedAgainAt: number
  /** Why clients would refuse the last certificate that was to replace the one in use. */
  withheld: string | undefined
  /** The certificate in use; past its notAfter until the withdrawal runs: see {@link usable}. */
  current: Issued | undefined
  /** A revocation list names the certificate in use. */
  revoked: { readonly since: number; readonly reason: string } | undefined
  /** Replaces the one in use at `from`. */
  upcoming: { readonly issued: Issued; readonly from: number } | undefined
  /** Served again if the one in use ends without a successor. */
  spare: Issued | undefined
  /** The last one in use ended before another one took its place. */
  hasExpired: boolean
  /** Its place among the wakes. */
  place: number
}

export function newIdentity(
  id: SpiffeId,
  fields: Pick<Identity, 'addedAt' | 'slot' | 'tokenFile' | 'wish' | 'keep'>,
): Identity {
  return {
    id,
    addedAt: fields.addedAt,
    slot: fields.slot,
    tokenFile: fields.tokenFile,
    wish: fields.wish,
    loweredTtlSeconds: undefined,
    keep: fields.keep,
    work: { kind: 'idle' },
    health: OK,
    backoffs: 0,
    lastSuccessAt: undefined,
    lastFailure: undefined,
    askedAgainAt: Number.NEGATIVE_INFINITY,
    withheld: undefined,
    current: undefined,
    revoked: undefined,
    upcoming: undefined,
    spare: undefined,
    hasExpired: false,
    place: -1,
  }
}

export const OK: Health = { kind: 'ok' }

/**
 * The certificate in use; `undefined` from notAfter on, also while its withdrawal is still to come: an event loop that was
 * stopped or busy reads its sockets before it runs timers.
 */
export function usable({ current }: Identity, now: number): Issued | undefined {
  return current && current.secret.notAfter > now ? current : undefined
}

/** The certificate in use, unless it is revoked: then any other one is better. */
export function worthKeeping(identity: Identity, now: number): Issued | undefined {
  return identity.revoked ? undefined : usable(identity, now)
}

/**
 * The end of the last certificate it has: the one in use, the one that waits to replace it, or the spare. `undefined` if peers
 * accept none of them.
 */
export function lastsUntil(identity: Identity, now: number): number | undefined {
  const inUse = worthKeeping(identity, now)
  if (!inUse) return undefined
  const { notAfter } = inUse.secret
  const { upcoming, spare } = identity
  const next = upcoming && upcoming.from <= notAfter ? upcoming.issued.secret.notAfter : notAfter
  return Math.max(notAfter, next, spare?.secret.notAfter ?? notAfter)
}

/** The certificate that came last: it waits for its time, or is in use. */
export function newest(identity: Identity, now: number): Issued | undefined {
  return identity.upcoming?.issued ?? usable(identity, now)
}

/** Contradicted refusals until an identity counts as alone. A single one may be a shared cause that came back. */
export const CONTRADICTIONS_TO_BE_ALONE = 2

/** Whether it fails while others succeed: then it shares no cause with them. */
export function isAlone({ health }: Identity): boolean {
  return health.kind === 'failing' && health.contradictions >= CONTRADICTIONS_TO_BE_ALONE
}

/** Whether it has failed alone since its last success. */
export function hasFailedAlone({ health }: Identity): boolean {
  return health.kind === 'failing' && health.failedAlone
}

export function failingWith({ health }: Identity): FailureKind | undefined {
  return health.kind === 'failing' ? health.cause : undefined
}

/** Whether it is still the request that its identity waits for: forgetting wins over a late answer. */
export function isCurrent(request: Request): boolean {
  const { work } = request.of
  return work.kind === 'fetching' && work.request === request
}

/** When its next work falls due; infinite if none does. */
export function nextAt({ keep, work, current, upcoming }: Identity): number {
  let at = Number.POSITIVE_INFINITY
  if (keep.kind === 'removed') at = keep.until
  if (work.kind === 'waiting') at = Math.min(at, work.due)
  if (current) at = Math.min(at, current.secret.notAfter)
  if (upcoming) at = Math.min(at, upcoming.from)
  return at
}

/**
 * Equal for certificates with the same root, intermediates and key size: a client accepts all of a kind, or none. Counts key
 * sizes in steps of 256 bytes, which tell types and sizes apart.
 */
export function kindOf({ root, secret }: Issued): string {
  return `${root.fingerprint} ${secret.intermediatesDigest} ${secret.privateKey.byteLength >> 8}`
}

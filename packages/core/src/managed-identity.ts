/** One identity in the SecretManager: what it has, and what is going on for it. */
import type { CAErrorCode } from './ca-client.ts'
import type { LedgerEvent } from './ledger.ts'
import type { CertificateSecret } from './secret-item.ts'
import type { ServedCertificate } from './served-certificate.ts'
import type { SpiffeId } from './spiffe-id.ts'
import type { TrustAnchor } from './trust-bundle.ts'

/** What the manager knows of an identity. */
export interface IdentityEntry {
  readonly identity: SpiffeId
  /** `initializing`: never had one and no CA error yet; `unavailable`: has none now. */
  readonly state: 'initializing' | 'available' | 'unavailable'
  readonly secret: CertificateSecret | undefined
  readonly root: TrustAnchor | undefined
  readonly addedAt: number
  /** When it is renewed or tried next; `undefined` while a request is queued or in flight. */
  readonly renewAt: number | undefined
  readonly lastSuccessAt: number | undefined
  readonly lastFailure: { readonly at: number; readonly code: CAErrorCode; readonly message: string } | undefined
}

export type Reason = Extract<LedgerEvent, { kind: 'csr-sent' }>['reason']

/** What is going on for an identity, beside serving what it has. */
export type Activity =
  | { readonly kind: 'new' }
  | { readonly kind: 'waiting'; readonly due: number; readonly timer: Disposable }
  | { readonly kind: 'queued'; readonly reason: Reason }
  | { readonly kind: 'fetching'; readonly controller: AbortController }
  | { readonly kind: 'forgotten' }

export interface Managed {
  readonly identity: SpiffeId
  readonly tokenFile: string | undefined
  readonly addedAt: number
  readonly phase: number
  readonly served: ServedCertificate
  activity: Activity
  failures: number
  lastSuccessAt: number | undefined
  lastFailure: IdentityEntry['lastFailure']
}

/** What others may see of it. */
export function toEntry(managed: Managed): IdentityEntry {
  const { identity, activity, served, addedAt, lastSuccessAt, lastFailure } = managed
  const missing = lastSuccessAt === undefined && lastFailure === undefined ? 'initializing' : 'unavailable'
  return {
    identity,
    state: served.current ? 'available' : missing,
    secret: served.current?.secret,
    root: served.current?.root,
    addedAt,
    renewAt: activity.kind === 'waiting' ? activity.due : undefined,
    lastSuccessAt,
    lastFailure,
  }
}

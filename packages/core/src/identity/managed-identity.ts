/** One identity in the SecretManager: what it has, and what is going on for it. */
import type { CAErrorCode } from '../contract/ca-client.ts'
import type { LedgerEvent } from '../contract/secret-event.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { CertificateSecret } from './secret-item.ts'
import type { ServedCertificate } from './served-certificate.ts'

/** What the manager knows of an identity. */
export interface IdentityEntry {
  readonly identity: SpiffeId
  /**
   * `initializing`: never had one and no CA error yet; `unavailable`: has none now; `idle`: needs none until somebody
   * subscribes.
   */
  readonly state: 'initializing' | 'available' | 'unavailable' | 'idle'
  readonly hold: Hold['kind']
  readonly secret: CertificateSecret | undefined
  readonly root: TrustAnchor | undefined
  readonly addedAt: number
  /** When it is renewed or tried next; `undefined` while a request is queued or in flight. */
  readonly renewAt: number | undefined
  readonly lastSuccessAt: number | undefined
  readonly lastFailure: { readonly at: number; readonly code: CAErrorCode; readonly message: string } | undefined
}

/** Somebody waits; nobody has it yet; it is still valid; it has failed where others need not have. */
export type Urgency = 'on-demand' | 'first' | 'renewal' | 'retry'

export type Reason = Extract<LedgerEvent, { kind: 'csr-sent' }>['reason']

/** Why an identity is held: it was added for good, somebody asked for it, or it was removed a short while ago. */
export type Hold =
  | { readonly kind: 'pinned' }
  | { readonly kind: 'on-demand' }
  | { readonly kind: 'removed'; readonly timer: Disposable }

/** What is going on for an identity, beside serving what it has. */
export type Activity =
  | { readonly kind: 'new' }
  /** `urgency`: of the request, if nothing is found. `isOutdated`: the CA has meanwhile told of a newer one. */
  | { readonly kind: 'restoring'; urgency: Exclude<Urgency, 'retry'>; isOutdated: boolean }
  | { readonly kind: 'waiting'; readonly due: number; readonly timer: Disposable }
  | { readonly kind: 'queued'; readonly reason: Reason }
  | { readonly kind: 'fetching'; readonly controller: AbortController }
  | { readonly kind: 'idle' }
  | { readonly kind: 'forgotten' }

export interface Managed {
  readonly identity: SpiffeId
  readonly addedAt: number
  readonly phase: number
  /** Replaced when an idle identity is dropped. */
  served: ServedCertificate
  tokenFile: string | undefined
  hold: Hold
  activity: Activity
  failures: number
  lastSuccessAt: number | undefined
  lastFailure: IdentityEntry['lastFailure']
  /** Since its last success it has failed where others need not have. */
  hasFailedAlone: boolean
}

/** A CA that is away or has no room fails for everyone: that says nothing of an identity. */
export function isItsOwn(code: CAErrorCode): boolean {
  return code !== 'unavailable' && code !== 'rate-limited'
}

/** What others may see of it. */
export function toEntry(managed: Managed): IdentityEntry {
  const { identity, hold, activity, served, addedAt, lastSuccessAt, lastFailure } = managed
  return {
    identity,
    state: stateOf(managed),
    hold: hold.kind,
    secret: served.current?.secret,
    root: served.current?.root,
    addedAt,
    renewAt: activity.kind === 'waiting' ? activity.due : undefined,
    lastSuccessAt,
    lastFailure,
  }
}

function stateOf({ served, activity, lastSuccessAt, lastFailure }: Managed): IdentityEntry['state'] {
  if (served.current) return 'available'
  if (activity.kind === 'idle') return 'idle'
  return lastSuccessAt === undefined && lastFailure === undefined ? 'initializing' : 'unavailable'
}

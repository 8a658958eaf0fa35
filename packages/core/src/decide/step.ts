/** One step of `decide`: the event, the state that it may change, the policy and the time; and the actions that follow. */

import type { CAChange, CAError } from '../contract/ca-client.ts'
import type { VerifiedChain } from '../contract/certificate-verifier.ts'
import type { CertificateWish } from '../contract/certificate-wish.ts'
import type { SealedKey } from '../contract/key-vault.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Root, StoredRoot } from '../contract/trust-anchor.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Identity, Issued, Request } from '../state/identity.ts'
import type { State } from '../state/state.ts'
import type { RetryPolicy } from '../time/backoff.ts'
import type { ClockJump } from '../time/clock.ts'
import type { ReceiptEvent } from '../trust/bundle-receipts.ts'
import type { ReadRoots, RootReader } from '../trust/root-reader.ts'
import type { RootAction } from '../trust/rotation-status.ts'
import type { RootTimes } from '../trust/settle-time.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import type { Crl } from '../x509/crl.ts'
import type { RotationPolicy } from './renewal-time.ts'

/** A chain that was judged, with its key: nothing of it is trusted or served yet. */
export interface Judged {
  readonly verified: VerifiedChain
  /** The roots that came with it. */
  readonly offered: ReadRoots
  /** They count for this identity only. */
  readonly isOwn: boolean
  readonly key: SealedKey
  readonly hint?: string | undefined
}

/** The answer of a CA. */
export interface Answer extends Judged {
  readonly source: 'signed' | 'brought'
  /** Tells the plugin that the answer has passed every check. */
  readonly accepted: (() => void) | undefined
}

/** A certificate from the disk. */
export interface Found extends Judged {
  readonly receivedAt: number
  readonly slot: number
  /** See {@link Issued.wish}. */
  readonly wish: string
  /** A certificate of the CA should replace it soon. */
  readonly isProvisional: boolean
}

export type RestoreSource = 'store' | 'bootstrap'

export type Event =
  /** The identity is wanted until it is removed. */
  | {
      readonly kind: 'added'
      readonly id: SpiffeId
      readonly tokenFile: string | undefined
      readonly wish: CertificateWish
    }
  | { readonly kind: 'removed'; readonly id: SpiffeId }
  /** It is to go at once. */
  | { readonly kind: 'dropped'; readonly id: SpiffeId }
  | { readonly kind: 'watched'; readonly id: SpiffeId }
  /** The last watcher has left. */
  | { readonly kind: 'unwatched'; readonly id: SpiffeId }
  /** Somebody waits for it, kept or not. */
  | { readonly kind: 'asked'; readonly id: SpiffeId }
  /** An operator wishes a new certificate. */
  | { readonly kind: 'renewalAsked'; readonly id: SpiffeId }
  /** The cause of its failures may be gone; without `id`, of everybody's failures. */
  | { readonly kind: 'retryAsked'; readonly id?: SpiffeId }
  /** A while ago a reader got nothing, since the certificate seemed to have ended. */
  | { readonly kind: 'readerRefused'; readonly id: SpiffeId }
  /** `waitedMs`: without the time in which this process was busy, and could not have seen the answer. */
  | {
      readonly kind: 'answered'
      readonly request: Request
      readonly answer: Answer | CAError
      readonly waitedMs: number
    }
  /** `found` is a text if the entry cannot be used, and absent if there is no entry. */
  | {
      readonly kind: 'restored'
      readonly identity: Identity
      readonly from: RestoreSource
      readonly found: Found | string | undefined
    }
  | { readonly kind: 'caChanged'; readonly change: CAChange }
  | { readonly kind: 'clockJumped'; readonly jump: ClockJump }
  /** The CA listed its roots after this jump, failed to, or took too long. */
  | { readonly kind: 'rootsAsked'; readonly jump: number }
  /** A time of {@link nextWake} has come. */
  | { readonly kind: 'woke' }
  /** The roots of the previous process; `read` reads one. */
  | { readonly kind: 'rootsRestored'; readonly roots: readonly StoredRoot[]; readonly read: RootReader['readOne'] }
  /** The CA's own list. */
  | { readonly kind: 'rootsListed'; readonly read: ReadRoots }
  /** All roots that the operator lists for a trust domain; `undefined`: none is listed any longer. */
  | { readonly kind: 'rootsConfigured'; readonly trustDomain: string; readonly roots: readonly Root[] | undefined }
  /** All revocation lists of a trust domain. */
  | { readonly kind: 'crlsRead'; readonly trustDomain: string; readonly crls: readonly Crl[]; readonly source: string }
  /** An operator wishes it. */
  | {
      readonly kind: 'rootChanged'
      readonly bundle: TrustBundle
      readonly fingerprint: string
      readonly action: RootAction
    }
  | ReceiptEvent
  | { readonly kind: 'closed' }

export type Action =
  | { readonly kind: 'fetch'; readonly request: Request }
  /** Gives a request up. */
  | { readonly kind: 'abort'; readonly request: Request; readonly reason: Error }
  | { readonly kind: 'restore'; readonly identity: Identity; readonly from: RestoreSource }
  /** Tells the plugin that its answer has passed every check. */
  | { readonly kind: 'accept'; readonly identity: Identity; readonly accepted: () => void }
  /** Watchers of the identity get its current certificate, or hear that there is none. */
  | { readonly kind: 'serve'; readonly id: SpiffeId }
  /** Wipes a key that no stream can get any longer. */
  | { readonly kind: 'wipe'; readonly key: SealedKey }
  /** Watchers of the bundle get its current roots. */
  | { readonly kind: 'publish'; readonly bundle: TrustBundle }
  /** Keeps the roots for the next process. */
  | { readonly kind: 'storeRoots'; readonly bundle: TrustBundle }
  /** Keeps the certificate in use for the next process. */
  | { readonly kind: 'store'; readonly identity: Identity }
  /** Wipes its stored certificate and its pending request. */
  | { readonly kind: 'forget'; readonly id: SpiffeId }
  | { readonly kind: 'clearStore' }
  /** Asks the CA for its roots; `jump`: after this jump of the clock. */
  | { readonly kind: 'askRoots'; readonly isChanged: boolean; readonly jump?: number }
  | { readonly kind: 'report'; readonly name: string; readonly event: SecretEvent }

/** Settings and verdicts that stay the same while the process runs. */
export interface Policy {
  readonly rotation: RotationPolicy &
    Omit<RootTimes, 'overlapMs'> & {
      /** How long an announcement waits for silent clients. */
      readonly ackWaitMs: number
    }
  /** Whether a root that is missing from the CA's list is revoked. */
  readonly revokesMissingRoots: boolean
  readonly retry: RetryPolicy
  readonly maxIdentities: number
  readonly removalGraceMs: number
  /** Returns a number in [0, 1). */
  readonly random: () => number
  /** See {@link Identity.slot}. */
  readonly slotOf: (id: SpiffeId) => number
  /** Why clients would refuse the certificate with the roots served now. */
  readonly refusalOf: (issued: Issued, id: SpiffeId, now: number) => string | undefined
}

export interface Step {
  readonly state: State
  readonly policy: Policy
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly actions: Action[]
}

export function report({ actions }: Step, name: string, event: SecretEvent): void {
  actions.push({ kind: 'report', name, event })
}

/** An event of the agent's trust domain. */
export function reportForAll(step: Step, event: SecretEvent): void {
  report(step, `spiffe://${step.state.trustDomain}`, event)
}

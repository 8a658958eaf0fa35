/** Events in the life of a secret, as `livery explain` and the log report them. */
import type { CAErrorCode } from './ca-client.ts'

/** What can happen to a secret. Texts are for people and carry no key, token or raw peer text. */
export type LedgerEvent =
  | { readonly kind: 'asked'; readonly by: string }
  | { readonly kind: 'refused'; readonly by: string; readonly reason: string }
  | { readonly kind: 'csr-sent'; readonly reason: 'first' | 'renewal' | 'on-demand' | 'new-root' }
  | { readonly kind: 'ca-error'; readonly code: CAErrorCode; readonly message: string }
  | { readonly kind: 'retry-planned'; readonly at: number }
  | { readonly kind: 'held'; readonly until: number; readonly reason: 'not-yet-valid' | 'root-settling' }
  | { readonly kind: 'issued'; readonly serialNumber: string; readonly notAfter: number; readonly renewAt: number }
  | {
      readonly kind: 'restored'
      /** A certificate of the process before, or one that an operator has placed. */
      readonly from: 'store' | 'bootstrap'
      readonly serialNumber: string
      readonly notAfter: number
      readonly renewAt: number
    }
  | { readonly kind: 'not-restored'; readonly reason: string }
  | { readonly kind: 'not-stored'; readonly reason: string }
  | { readonly kind: 'roots-changed'; readonly version: string; readonly roots: number }
  | { readonly kind: 'removed'; readonly until: number }
  | { readonly kind: 'kept' }
  | { readonly kind: 'no-room'; readonly maxIdentities: number }
  | { readonly kind: 'withdrawn'; readonly reason: 'expired' | 'forgotten' | 'idle' | 'evicted' }
  | { readonly kind: 'pushed'; readonly to: string; readonly version: string }
  | { readonly kind: 'acked'; readonly by: string; readonly version: string }
  | { readonly kind: 'nacked'; readonly by: string; readonly version: string; readonly detail: string }

export interface LedgerEntry {
  /** Milliseconds since the epoch; of the last one, where there are several. */
  readonly time: number
  readonly event: LedgerEvent
  /** How many times it happened, if more than once: the same push to a thousand streams is one entry. */
  readonly count?: number
}

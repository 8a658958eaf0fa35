/** Events in the life of a secret, as the manager reports them. */
import type { CAErrorCode } from './ca-client.ts'
import type { FailureKind } from './ca-failure.ts'
import type { RootPhase } from './trust-anchor.ts'

/** Texts are for people and carry no key, token or raw peer text. */
export type SecretEvent =
  /** `reason`: what led to the request. A retry keeps it while there is a certificate. */
  | {
      readonly kind: 'csr-sent'
      readonly reason:
        | 'first'
        | 'on-demand'
        | 'renewal'
        | 'new-root'
        | 'new-wish'
        | 'ca-changed'
        | 'revoked'
        | 'operator'
    }
  | { readonly kind: 'ca-error'; readonly code: CAErrorCode; readonly message: string; readonly local?: boolean }
  | { readonly kind: 'retry-planned'; readonly at: number }
  /** The machine slept, its clock was set, or the process did not run. Reported for the trust domain. */
  | { readonly kind: 'clock-jumped'; readonly how: 'forward' | 'back' | 'stopped'; readonly ms: number }
  /** The CA as a whole is down. Reported for the trust domain, as is `ca-back`. */
  | { readonly kind: 'ca-down' }
  | { readonly kind: 'ca-back'; readonly downSince: number }
  /** Many identities fail alike, and none succeeds. Reported for the trust domain, as is `shared-failure-over`. */
  | { readonly kind: 'shared-failure'; readonly failure: FailureKind }
  | { readonly kind: 'shared-failure-over'; readonly failure: FailureKind; readonly since: number }
  /** The CA refused the longer lifetime for an identity. Reported for the trust domain, once per lifetime. */
  | { readonly kind: 'ttl-lowered'; readonly fromSeconds: number; readonly toSeconds: number }
  /** The CA's certificates are too short to outlive the configured outage. Reported for the trust domain, again at half the life. */
  | { readonly kind: 'life-too-short'; readonly lifetimeMs: number; readonly surviveMs: number }
  | { readonly kind: 'served-later'; readonly until: number; readonly reason: 'not-yet-valid' | 'root-announcing' }
  | { readonly kind: 'issued'; readonly serialNumber: string; readonly notAfter: number; readonly renewAt: number }
  | {
      readonly kind: 'restored'
      /** A certificate of the previous process, or one that an operator has placed. */
      readonly from: 'store' | 'bootstrap'
      readonly serialNumber: string
      readonly notAfter: number
      readonly renewAt: number
    }
  /**
   * Clients would refuse a certificate with the roots that they are served. `isServed`: it is served anyway, since no
   * better one exists; else the one in use stays. Reported for a trust domain: leaves in use, with its current roots.
   */
  | { readonly kind: 'preflight-failed'; readonly reason: string; readonly isServed: boolean }
  /** A revocation list names the certificate in use, or one above it: a new one is requested now. */
  | { readonly kind: 'revoked'; readonly serialNumber: string; readonly reason: string }
  | { readonly kind: 'not-restored'; readonly reason: string }
  | { readonly kind: 'not-stored'; readonly reason: string }
  | { readonly kind: 'roots-changed'; readonly version: string; readonly roots: number }
  /** A root of a bundle changed its phase, or a client keeps it from changing; `reason` says why. */
  | {
      readonly kind: 'root-phase'
      readonly fingerprint: string
      readonly phase: RootPhase | 'removed'
      readonly reason: string
    }
  /** Roots of a configured source were left out, and its others are trusted. */
  | { readonly kind: 'roots-rejected'; readonly source: string; readonly count: number; readonly reason: string }
  /** A configured source gave no usable list: the previous list stays. */
  | { readonly kind: 'roots-unavailable'; readonly source: string; readonly reason: string }
  /** The served revocation lists changed. `uncovered`: fingerprints of roots without a list, under which verifiers refuse all peers. */
  | {
      readonly kind: 'crl-changed'
      readonly lists: number
      readonly nextUpdate?: number
      readonly uncovered: readonly string[]
    }
  /** The file of revocation lists cannot be used: the previous lists stay. */
  | { readonly kind: 'crl-unavailable'; readonly source: string; readonly reason: string }
  | { readonly kind: 'removed'; readonly until: number }
  | { readonly kind: 'kept' }
  | { readonly kind: 'no-room'; readonly maxIdentities: number }
  | {
      readonly kind: 'read-from-files'
      readonly version: string
      /** Absent for roots and tokens. */
      readonly serialNumber?: string
      readonly notAfter?: number
      /** Certificates that cannot be parsed, and were left out. */
      readonly skipped?: number
    }
  | { readonly kind: 'files-unusable'; readonly reason: string; readonly isServed: boolean }
  /** The last fifth of the life of a certificate that others write, or of a token, has begun, and no newer one has come. */
  | { readonly kind: 'ending'; readonly notAfter: number }
  | { readonly kind: 'withdrawn'; readonly reason: 'expired' | 'forgotten' | 'idle' | 'evicted' | 'deleted' }

export interface SecretReport {
  /** `spiffe://…` of the identity or of the trust domain, or the name of files. */
  readonly name: string
  /** Milliseconds since the epoch. */
  readonly time: number
  readonly event: SecretEvent
}

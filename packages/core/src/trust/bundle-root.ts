/** One root of a bundle: its standing, its announcement, its leaves. */

import type { Standing, TrustAnchor } from '../contract/trust-anchor.ts'
import type { BundleReceipt } from './bundle-receipts.ts'

/** A new root that clients are to learn before leaves under it are served. */
export interface Announcement {
  readonly settlesAt: number
  /** The end of the wait for silent clients. */
  readonly waitUntil: number
  /** Clients that use an older bundle, and have not answered the one with this root. */
  readonly silent: Set<BundleReceipt>
  readonly rejecting: Set<BundleReceipt>
  /** An operator has decided against waiting for those that reject it. */
  ignoresRejections: boolean
  /** The next check without an answer; infinite once the wait for silent clients is over. */
  lookAt: number
}

export interface BundleRoot {
  readonly anchor: TrustAnchor
  announcement: Announcement | undefined
  /** An operator keeps it where it is: no leaf under it is served, and it is not removed. */
  isHeld: boolean
  /** Absent where the CA has never named it. */
  standing: Standing | undefined
  /** Whether the operator lists it: then nothing but its notAfter removes it. */
  isConfigured: boolean
  /** Leaves in use or waiting that chain to it. */
  leases: number
  /** The latest end of a certificate whose answer named it, or left it out first: until then peers may show leaves under it. */
  leavesUntil: number
  /** When the CA's list, or the answers if the list never had it, stopped naming it. */
  givenUpAt?: number | undefined
  /** When leaves under older roots began to follow. */
  followedAt?: number | undefined
}

/** The `givenUpAt` of a root that leaves as soon as nothing needs it: long ago. */
export const NO_OVERLAP = Number.MIN_SAFE_INTEGER

/** Whether, by the CA, no leaf under it should remain. */
export function isGone({ standing }: Pick<BundleRoot, 'standing'>): boolean {
  return standing === 'given-up' || standing === 'revoked'
}

/** Whether the CA's list, its latest answer or the operator has it now. */
export function isListed({ standing, isConfigured, givenUpAt }: BundleRoot): boolean {
  return isConfigured || (standing !== undefined && givenUpAt === undefined)
}

/** Whether the CA's list or the operator has it: a root that only answers name can be kept out. */
export function isOnList({ standing, isConfigured }: BundleRoot): boolean {
  return isConfigured || standing === 'listed'
}

/** Trust anchors: the roots that peers are checked against, and the bounds of their number and size. */
import type { X509Certificate } from 'node:crypto'

/** The most roots of one trust domain, over all sources and all time. */
export const MAX_ROOTS = 100

/** The longest root, in characters of PEM. */
export const MAX_ROOT_LENGTH = 65_536

/** All roots of one trust domain together, in characters of PEM. */
export const MAX_ROOTS_LENGTH = 1_048_576

/** A certificate that may become a trust anchor. */
export interface Root {
  /** SHA-256 of the DER, hex. */
  readonly fingerprint: string
  /** Encoded again from what was parsed. */
  readonly pem: string
  readonly certificate: X509Certificate
  readonly notBefore: number
  readonly notAfter: number
}

/** One trust anchor. */
export interface TrustAnchor extends Root {
  /** When this bundle first held it, milliseconds since the epoch. */
  readonly learnedAt: number
  /** The end of the time in which a leaf under it may meet peers that do not know it yet. */
  readonly settlesAt: number
}

/**
 * The standing of a root at the CA. `listed`: on the CA's list. `inferred`: not on it, but part of a later answer.
 * `given-up`: once listed, but missing from the CA's last complete list. `revoked`: by the CA or an operator; no answer
 * brings it back, a list does.
 */
export type Standing = 'listed' | 'inferred' | 'given-up' | 'revoked'

/**
 * `announcing`: clients learn it, no leaf under it is served yet. `held`: an operator has stopped it in its phase. `trusted`:
 * leaves under it are served. `retiring`: no source lists it any longer; it leaves once nothing needs it.
 */
export type RootPhase = 'announcing' | 'held' | 'trusted' | 'retiring'

/** A root as it is kept from one process to the next; a revoked one is kept so that it stays untrusted. */
export interface StoredRoot extends Pick<TrustAnchor, 'pem' | 'learnedAt' | 'settlesAt'> {
  readonly standing: Standing
  /** The time until which peers may show leaves under it that were issued before an answer left it out. */
  readonly leavesUntil: number
  /** When it was given up, or the answers began to leave it out, milliseconds since the epoch. */
  readonly givenUpAt?: number
  /** When leaves under older roots began to follow, milliseconds since the epoch. */
  readonly followedAt?: number
  /** Clients are to learn it before leaves under it are served. */
  readonly isAnnouncing?: boolean
  /** An operator has stopped it in its phase. */
  readonly isHeld?: boolean
}

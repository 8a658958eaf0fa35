/** What an operator sees of root rotations, and does to them. */

import type { RootPhase } from '../contract/trust-anchor.ts'
import type { WaitedFor } from './root-rotation.ts'

/** A root of a trust domain, as an operator sees it. */
export interface RootStatus {
  /** SHA-256 of the DER, hex. */
  readonly fingerprint: string
  readonly phase: RootPhase
  /** Whether the CA, or the configuration, lists it now. */
  readonly isListed: boolean
  /** Certificates under it that are served or wait. */
  readonly leaves: number
  /** How many clients its announcement waits for. */
  readonly waiting: number
  /** The first of them, at most 20: those that reject it first. */
  readonly waitsFor: readonly WaitedFor[]
  /** Milliseconds since the epoch, as all times here. */
  readonly learnedAt: number
  /** Until then an announcement lasts at least. */
  readonly settlesAt: number
  /** When it leaves, as things are; `undefined` while somebody lists it or a certificate needs it. */
  readonly leavesAt: number | undefined
  readonly notAfter: number
}

/**
 * `announcing`: clients learn a root. `renewing`: leaves leave a root that was given up or followed by a newer one. `retiring`:
 * no leaf needs a root that was given up. `steady`: nothing changes.
 */
export type RotationPhase = 'announcing' | 'renewing' | 'retiring' | 'steady'

export interface RotationStatus {
  readonly trustDomain: string
  readonly phase: RotationPhase
  /** The newest last. */
  readonly roots: readonly RootStatus[]
}

/** The changes that an operator can make to one root. */
export type RootAction = 'hold' | 'resume' | 'drop'

/** `refused`: why nothing was changed, with the remedy. */
export type RootActionResult = { readonly done: RootStatus } | { readonly refused: string }

/** The phase of a trust domain, of those of its roots. */
export function rotationPhase(roots: readonly RootStatus[]): RotationPhase {
  if (roots.some(({ phase }) => phase === 'announcing' || phase === 'held')) return 'announcing'
  const retiring = roots.filter(({ phase }) => phase === 'retiring')
  if (retiring.some(({ leaves }) => leaves > 0)) return 'renewing'
  if (retiring.length > 0) return 'retiring'
  return roots.filter(({ leaves }) => leaves > 0).length > 1 ? 'renewing' : 'steady'
}

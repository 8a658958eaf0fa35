/** The operator's view of root rotations: status, hold, resume, drop. */

import type { RootPhase, TrustAnchor } from '../contract/trust-anchor.ts'
import type { Clock } from '../time/clock.ts'
import type { WaitedFor } from './root-rotation.ts'
import type { RootRotations } from './root-rotations.ts'
import type { TrustBundle } from './trust-bundle.ts'

/** A fingerprint may be cut, as in git. */
const LEAST_DIGITS = 6

/** A root of a trust domain, as an operator sees it. */
export interface RootStatus {
  /** SHA-256 of the DER, hex. */
  readonly fingerprint: string
  readonly phase: RootPhase
  /** Whether the CA's list, its latest answer or the configuration has it now. */
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

export interface RotationControlOptions {
  readonly clock: Clock
  /** By trust domain. */
  readonly bundles: ReadonlyMap<string, TrustBundle>
  readonly rotations: RootRotations
  /** An operator has given up a root of the bundle. */
  readonly onDropped: (bundle: TrustBundle, fingerprint: string) => void
}

export class RotationControl {
  readonly #options: RotationControlOptions

  constructor(options: RotationControlOptions) {
    this.#options = options
  }

  /** The rotations of all trust domains. */
  status(): readonly RotationStatus[] {
    return [...this.#options.bundles.values()].map(bundle => {
      const roots = bundle.anchors().map(anchor => this.#statusOf(bundle, anchor))
      return { trustDomain: bundle.trustDomain, phase: rotationPhase(roots), roots }
    })
  }

  /** Does what an operator wishes to the root whose fingerprint begins with `prefix`. */
  change(action: RootAction, prefix: string): RootActionResult {
    const bundles = [...this.#options.bundles.values()]
    const all = bundles.flatMap(bundle => bundle.anchors().map(anchor => ({ bundle, anchor })))
    const wanted = prefix.replaceAll(':', '').toLowerCase()
    const found = wanted.length < LEAST_DIGITS ? [] : all.filter(({ anchor }) => anchor.fingerprint.startsWith(wanted))
    const [root] = found
    if (!root || found.length > 1) {
      const anchors = all.map(({ anchor }) => anchor)
      return { refused: notOneRoot(prefix, anchors) }
    }
    const { bundle, anchor } = root
    const { fingerprint } = anchor
    if (action === 'drop') {
      const refused = this.#drop(bundle, fingerprint)
      if (refused !== undefined) return { refused }
    } else this.#options.rotations.of(bundle)[action](fingerprint)
    return { done: this.#statusOf(bundle, anchor) }
  }

  #statusOf(bundle: TrustBundle, { fingerprint, learnedAt, settlesAt, notAfter }: TrustAnchor): RootStatus {
    const { clock, rotations } = this.#options
    const leavesAt = bundle.leavesAt(fingerprint)
    return {
      fingerprint,
      phase: this.#phaseOf(bundle, fingerprint),
      isListed: bundle.isListed(fingerprint),
      leaves: bundle.leaves(fingerprint),
      waiting: rotations.waiting(bundle, fingerprint),
      waitsFor: rotations.waitsFor(bundle, fingerprint),
      learnedAt,
      settlesAt,
      leavesAt: Number.isFinite(leavesAt) ? Math.max(leavesAt, clock.now()) : undefined,
      notAfter,
    }
  }

  #phaseOf(bundle: TrustBundle, fingerprint: string): RootPhase {
    const { rotations } = this.#options
    if (rotations.isHeld(bundle, fingerprint)) return 'held'
    if (bundle.isGivenUp(fingerprint)) return 'retiring'
    return rotations.isAnnouncing(bundle, fingerprint) ? 'announcing' : 'trusted'
  }

  /** Why it cannot be dropped, with the remedy. */
  #drop(bundle: TrustBundle, fingerprint: string): string | undefined {
    if (bundle.isOnList(fingerprint))
      return 'The CA or the configuration lists it, so that it would come back. Remove it there; livery trust status shows when it leaves.'
    const isLast = bundle
      .anchors()
      .every(each => each.fingerprint === fingerprint || bundle.isGivenUp(each.fingerprint))
    if (isLast)
      return 'There is no other root that is not given up: every certificate would be refused. Add a root at the CA first.'
    this.#options.rotations.of(bundle).drop(fingerprint)
    bundle.drop(fingerprint)
    this.#options.onDropped(bundle, fingerprint)
    return undefined
  }
}

/** The phase of a trust domain, of those of its roots. */
function rotationPhase(roots: readonly RootStatus[]): RotationPhase {
  if (roots.some(({ phase }) => phase === 'announcing' || phase === 'held')) return 'announcing'
  const retiring = roots.filter(({ phase }) => phase === 'retiring')
  if (retiring.some(({ leaves }) => leaves > 0)) return 'renewing'
  if (retiring.length > 0) return 'retiring'
  return roots.filter(({ leaves }) => leaves > 0).length > 1 ? 'renewing' : 'steady'
}

function notOneRoot(prefix: string, anchors: readonly TrustAnchor[]): string {
  const known = anchors.map(({ fingerprint }) => fingerprint.slice(0, 16)).join(', ')
  return `The fingerprint ${JSON.stringify(prefix.slice(0, 64))} does not name one root alone. Give more of its digits: ${known || 'no root is held'}.`
}

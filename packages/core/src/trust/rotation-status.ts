/** The operator's view of bundles and root rotations: each root with its phase, found by the start of its fingerprint. */

import type { RootPhase, TrustAnchor } from '../contract/trust-anchor.ts'
import type { TrustBundleSecret } from '../secrets/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { type Announcement, type BundleRoot, isListed, isOnList } from './bundle-root.ts'
import type { BundleTable } from './bundle-table.ts'
import type { TrustBundle } from './trust-bundle.ts'

/** The bundle of a trust domain, or the roots that count for one identity only. */
export interface BundleEntry {
  readonly trustDomain: string
  readonly identity?: SpiffeId
  readonly secret: TrustBundleSecret
  readonly roots: readonly TrustAnchor[]
}

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
  /** The first 20 of these clients at most, rejecting ones first. */
  readonly waitsFor: readonly WaitedFor[]
  /** Milliseconds since the epoch, as all times here. */
  readonly learnedAt: number
  /** The earliest end of its announcement. */
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

/** A client that keeps a root from its next phase, and its reason where it has rejected the root. */
export interface WaitedFor {
  readonly client: string
  readonly reason?: string
}

/** The most clients named at a time. */
const MAX_NAMED = 20

/** The bundles of trust domains, then the bundles of identities with own roots. */
export function bundleEntries(bundles: BundleTable): readonly BundleEntry[] {
  return bundles.values().flatMap(bundle => {
    const { trustDomain, secret, owner } = bundle
    return secret ? [{ trustDomain, secret, roots: bundle.anchors(), ...(owner && { identity: owner }) }] : []
  })
}

/** The rotations of all trust domains. */
export function rotationsOf(bundles: BundleTable, now: number): readonly RotationStatus[] {
  return [...bundles.byTrustDomain.values()].map(bundle => {
    const roots = bundle.roots.values().map(root => statusOf(bundle, root, now))
    return { trustDomain: bundle.trustDomain, phase: rotationPhase(roots), roots }
  })
}

export function statusOf(bundle: TrustBundle, root: BundleRoot, now: number): RootStatus {
  const { anchor, announcement, leases } = root
  const { fingerprint, learnedAt, settlesAt, notAfter } = anchor
  const leavesAt = bundle.roots.unneededAt(root)
  return {
    fingerprint,
    phase: rootPhase(bundle, root),
    isListed: isListed(root),
    leaves: leases,
    waiting: announcement ? announcement.rejecting.size + announcement.silent.size : 0,
    waitsFor: announcement ? waitedFor(announcement) : [],
    learnedAt,
    settlesAt,
    leavesAt: Number.isFinite(leavesAt) ? Math.max(leavesAt, now) : undefined,
    notAfter,
  }
}

interface HeldRoot {
  readonly bundle: TrustBundle
  readonly root: BundleRoot
}

/** The one root whose fingerprint begins with `prefix`, or why it cannot be changed, with the remedy. */
export function rootToChange(bundles: BundleTable, action: RootAction, prefix: string): HeldRoot | string {
  const found = findRoot(bundles, prefix)
  const isDropped = typeof found === 'object' && action === 'drop'
  return (isDropped ? dropRefusal(found.bundle, found.root) : undefined) ?? found
}

function findRoot(bundles: BundleTable, prefix: string): HeldRoot | string {
  const all = [...bundles.byTrustDomain.values()].flatMap(bundle =>
    bundle.roots.values().map(root => ({ bundle, root })),
  )
  const wanted = prefix.replaceAll(':', '').toLowerCase()
  const found = wanted.length < LEAST_DIGITS ? [] : all.filter(each => each.root.anchor.fingerprint.startsWith(wanted))
  const [first] = found
  if (first && found.length === 1) return first
  const known = all.map(({ root }) => root.anchor.fingerprint.slice(0, 16)).join(', ')
  const shown = JSON.stringify(prefix.slice(0, 64))
  if (known === '') return `No root is held, so ${shown} names none.`
  return found.length > 1
    ? `The fingerprint ${shown} names more than one root. Write more digits of one of these: ${known}.`
    : `The fingerprint ${shown} names no root. Write ${LEAST_DIGITS} or more of the first digits of one of these: ${known}.`
}

/** Why a root cannot be dropped, with the remedy. */
export function dropRefusal(bundle: TrustBundle, root: BundleRoot): string | undefined {
  const { fingerprint } = root.anchor
  if (isOnList(root))
    return 'The CA or the configuration lists it, so that it would come back. Remove it there; livery trust status shows when it leaves.'
  const isLast = bundle.anchors().every(each => each.fingerprint === fingerprint || bundle.isGivenUp(each.fingerprint))
  if (!isLast) return undefined
  return 'There is no other root that is not given up: every certificate would be refused. Add a root at the CA first.'
}

function waitedFor({ rejecting, silent }: Announcement): readonly WaitedFor[] {
  const named = [...rejecting].slice(0, MAX_NAMED).map(({ client, rejected }) => ({
    client: client(),
    reason: rejected?.reason ?? '',
  }))
  return [...named, ...[...silent].slice(0, MAX_NAMED - named.length).map(({ client }) => ({ client: client() }))]
}

function rootPhase(bundle: TrustBundle, { anchor, isHeld, announcement }: BundleRoot): RootPhase {
  if (isHeld) return 'held'
  if (bundle.isGivenUp(anchor.fingerprint)) return 'retiring'
  return announcement ? 'announcing' : 'trusted'
}

/** The phase of a trust domain, by the phases of its roots. */
function rotationPhase(roots: readonly RootStatus[]): RotationPhase {
  if (roots.some(({ phase }) => phase === 'announcing' || phase === 'held')) return 'announcing'
  const retiring = roots.filter(({ phase }) => phase === 'retiring')
  if (retiring.some(({ leaves }) => leaves > 0)) return 'renewing'
  if (retiring.length > 0) return 'retiring'
  return roots.filter(({ leaves }) => leaves > 0).length > 1 ? 'renewing' : 'steady'
}

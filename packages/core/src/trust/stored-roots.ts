/** The roots of a bundle from one process to the next. */

import { MAX_ROOTS, MAX_ROOTS_LENGTH, type StoredRoot, type TrustAnchor } from '../contract/trust-anchor.ts'
import type { BundleRoot } from './bundle-root.ts'
import { nameOf, type RootReader } from './root-reader.ts'

/** Nothing for a root that only the operator lists. */
export function toStored({ anchor, standing, announcement, isHeld, ...times }: BundleRoot): readonly StoredRoot[] {
  const { pem, learnedAt, settlesAt } = anchor
  const { leavesUntil, givenUpAt, followedAt } = times
  if (standing === undefined) return []
  const phase = { ...(announcement && { isAnnouncing: true }), ...(isHeld && { isHeld }) }
  const changes = { ...(givenUpAt !== undefined && { givenUpAt }), ...(followedAt !== undefined && { followedAt }) }
  return [{ pem, learnedAt, settlesAt, standing, leavesUntil, ...changes, ...phase }]
}

/** `rejected`: why some were left out. */
export function readStored(
  stored: readonly StoredRoot[],
  read: RootReader['readOne'],
  now: number,
  settleMs: number,
): {
  readonly roots: readonly BundleRoot[]
  readonly revoked: readonly TrustAnchor[]
  readonly rejected: readonly string[]
} {
  const roots: BundleRoot[] = []
  const revoked: TrustAnchor[] = []
  const rejected: string[] = []
  let room = MAX_ROOTS_LENGTH
  for (const { pem, learnedAt, settlesAt, standing, isHeld = false, ...times } of stored.slice(0, MAX_ROOTS)) {
    const root = pem.length > room ? 'there is no room for it' : read(pem)
    if (typeof root === 'string' || root.notAfter <= now) {
      rejected.push(typeof root === 'string' ? root : `${nameOf(root.certificate)} has expired`)
      continue
    }
    const anchor = {
      ...root,
      learnedAt: Math.min(learnedAt, now),
      settlesAt: Math.min(settlesAt, now + settleMs),
    }
    const { leavesUntil, followedAt, givenUpAt = standing === 'given-up' ? now : undefined } = times
    if (standing === 'revoked') revoked.push(anchor)
    // A revoked root that is kept, such as the last one, keeps its time: it leaves as it would have without the restart.
    if (standing === 'revoked' && givenUpAt === undefined) continue
    room -= anchor.pem.length
    const facts = { standing, isConfigured: false, leases: 0, leavesUntil, followedAt, givenUpAt }
    roots.push({ anchor, ...facts, announcement: undefined, isHeld })
  }
  return { roots, revoked, rejected }
}

/** How long a new root settles by default, and an old one stays: until every node has learned of the change. */

import type { CACapabilities } from '../contract/ca-plugin.ts'

/** The time in which news that the CA pushes reach all nodes and their proxies. */
const PUSH_MS = 10_000
const MAX_SETTLE_MS = 86_400_000

/** How long roots are in transition, milliseconds. */
export interface RootTimes {
  /** How long a new root is only trusted before leaves under it are served. */
  readonly settleMs: number
  /** The same for roots that count for one identity. */
  readonly ownSettleMs: number
  /** How long a root stays after it was given up. */
  readonly overlapMs: number
}

export interface SettleFacts {
  /** How the nodes learn the CA's roots. */
  readonly roots: CACapabilities['roots']
  readonly pollMs: number
  /** The lifetime of the certificates. */
  readonly lifetimeMs: number
  /** When they are renewed, as fractions of their lifetime: see `rotation`. */
  readonly ratio: number
  readonly jitter: number
}

/** The time in which every node whose calls succeed learns a new root, milliseconds. */
export function hearingTime({ roots, pollMs, lifetimeMs, ratio, jitter }: SettleFacts): number {
  if (roots === 'push') return 0
  // A node with one identity learns of it at the renewal.
  return roots === 'poll' ? pollMs : (ratio + jitter) * lifetimeMs
}

/** The default settle time, milliseconds, a day at most: with it one poll may fail. */
export function defaultSettleMs(facts: SettleFacts): number {
  const hearing = hearingTime(facts)
  return Math.min(PUSH_MS + (facts.roots === 'poll' ? 2 * hearing : hearing), MAX_SETTLE_MS)
}

/**
 * The default for roots that count for one identity, milliseconds: the writer of its files also writes its peers' files,
 * and decides the order.
 */
export const OWN_SETTLE_MS = PUSH_MS

const MIN_OVERLAP_MS = 3_600_000
/** A generous bound for replacing the leaves under a root that was given up. */
const REPLACEMENT_MS = 1_800_000

/** The default time that a root stays after it was given up, milliseconds: until every node knows and has replaced its leaves. */
export function defaultOverlapMs(settleMs: number): number {
  return Math.max(MIN_OVERLAP_MS, settleMs + REPLACEMENT_MS)
}

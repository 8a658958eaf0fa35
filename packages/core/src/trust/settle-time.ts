/** How long a new root settles by default, and an old one stays: until every node has heard of it, in the way in which nodes do. */

import type { CACapabilities } from '../contract/ca-plugin.ts'

/** News that the CA pushes reach all nodes, and their proxies, within so long. */
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
  /** How the nodes hear of the CA's roots. */
  readonly roots: CACapabilities['roots']
  readonly pollMs: number
  /** Of the certificates. */
  readonly lifetimeMs: number
  /** When they are renewed, as fractions of their lifetime: see `rotation`. */
  readonly ratio: number
  readonly jitter: number
}

/** Within so long after the CA's change every node knows a new root, if its calls succeed, milliseconds. */
export function hearingTime({ roots, pollMs, lifetimeMs, ratio, jitter }: SettleFacts): number {
  if (roots === 'push') return 0
  // A node with one identity hears of it when that is renewed.
  return roots === 'poll' ? pollMs : (ratio + jitter) * lifetimeMs
}

/** The default settle time, milliseconds, a day at most: with it one poll may fail. */
export function defaultSettleMs(facts: SettleFacts): number {
  const hearing = hearingTime(facts)
  return Math.min(PUSH_MS + (facts.roots === 'poll' ? 2 * hearing : hearing), MAX_SETTLE_MS)
}

/**
 * The default for roots that count for one identity, milliseconds: the writer of its files writes those of its peers, and
 * decides on the order.
 */
export const OWN_SETTLE_MS = PUSH_MS

const MIN_OVERLAP_MS = 3_600_000
/** In so long leaves are replaced whose root was given up, with room to spare. */
const REPLACEMENT_MS = 1_800_000

/** The default of how long a root stays after it was given up, milliseconds: until every node has heard of that and replaced its leaves. */
export function defaultOverlapMs(settleMs: number): number {
  return Math.max(MIN_OVERLAP_MS, settleMs + REPLACEMENT_MS)
}

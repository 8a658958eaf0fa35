/** The settings of one run. */

import type { Policy } from '../../src/decide/step.ts'
import type { StateParts } from '../../src/state/state.ts'
import type { Random } from './random.ts'

export interface Settings extends Omit<Policy, 'random' | 'slotOf' | 'refusalOf'>, Pick<StateParts, 'idle'> {
  readonly identities: number
  readonly ttlSeconds: number
  readonly concurrency: number
  readonly timeoutMs: number
  readonly overlapMs: number
  readonly hasStore: boolean
  readonly listsRoots: boolean
}

export function drawSettings(random: Random): Settings {
  const identities = 1 + random.below(10)
  return {
    identities,
    ttlSeconds: random.pick([20, 300, 3_600, 86_400]),
    timeoutMs: random.pick([5_000, 30_000]),
    overlapMs: random.pick([1_000, 60_000, 3_600_000]),
    hasStore: random.chance(0.5),
    listsRoots: random.chance(0.8),
    revokesMissingRoots: random.chance(0.3),
    rotation: {
      ratio: 0.5,
      jitter: random.pick([0, 0.1, 0.3]),
      settleMs: random.pick([0, 5_000, 60_000, 600_000]),
      ownSettleMs: random.pick([0, 5_000]),
      ackWaitMs: random.pick([1_000, 60_000]),
    },
    retry: random.pick([
      { minMs: 500, maxMs: 150_000 },
      { minMs: 200, maxMs: 5_000 },
    ]),
    concurrency: random.pick([1, 2, 3, 8, 64]),
    maxIdentities: 1 + random.below(identities + 2),
    removalGraceMs: random.pick([0, 1_000, 60_000, 300_000]),
    idle: { afterMs: random.pick([1_000, 60_000, 3_600_000]), action: random.chance(0.5) ? 'drop' : 'renew' },
  }
}

/** Metrics of the keys that are made ahead. */
import type { KeyGenerator, KeyPoolStatus } from '@livery/core'
import type { MetricRow, Sample } from './metric-rows.ts'

const labels = ['type'] as const

export function keyPoolMetrics(keyGenerator: Pick<KeyGenerator, 'pool'>): readonly MetricRow[] {
  const perType = (read: (pool: KeyPoolStatus) => number) => () =>
    (keyGenerator.pool?.() ?? []).map((pool): Sample => [read(pool), pool.type])
  return [
    {
      name: 'livery_key_pool_depth',
      help: 'Keys in the pool that are ready.',
      labels,
      read: perType(({ depth }) => depth),
    },
    {
      name: 'livery_key_pool_oldest_age_seconds',
      help: 'Age of the oldest ready key; absent while there is none.',
      labels,
      read: () =>
        (keyGenerator.pool?.() ?? []).flatMap(({ type, oldestAgeMs }) =>
          oldestAgeMs === undefined ? [] : [[oldestAgeMs / 1000, type] satisfies Sample],
        ),
    },
    {
      name: 'livery_key_pool_hits_total',
      help: 'Keys taken from the pool.',
      labels,
      read: perType(({ hits }) => hits),
    },
    {
      name: 'livery_key_pool_misses_total',
      help: 'Keys generated on request, because none was ready.',
      labels,
      read: perType(({ misses }) => misses),
    },
  ]
}

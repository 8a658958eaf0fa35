/** Metrics of the keys that are made ahead, read at each scrape. */
import type { KeyPoolStatus } from '@livery/core'
import { Counter, Gauge, type Registry } from 'prom-client'

export interface KeyPoolSource {
  /** One element a key type; empty without a pool. */
  keyPool(): readonly KeyPoolStatus[]
}

export function registerKeyPoolMetrics(registry: Registry, source: KeyPoolSource): void {
  const labelNames = ['type'] as const
  const registers = [registry]
  new Gauge({
    name: 'livery_key_pool_depth',
    help: 'Keys in the pool that are ready.',
    labelNames,
    registers,
    collect() {
      this.reset()
      for (const { type, depth } of source.keyPool()) this.set({ type }, depth)
    },
  })
  new Gauge({
    name: 'livery_key_pool_oldest_age_seconds',
    help: 'Age of the oldest ready key; absent while there is none.',
    labelNames,
    registers,
    collect() {
      this.reset()
      for (const { type, oldestAgeMs } of source.keyPool())
        if (oldestAgeMs !== undefined) this.set({ type }, oldestAgeMs / 1000)
    },
  })
  new Counter({
    name: 'livery_key_pool_hits_total',
    help: 'Keys taken from the pool.',
    labelNames,
    registers,
    collect() {
      this.reset()
      for (const { type, hits } of source.keyPool()) this.inc({ type }, hits)
    },
  })
  new Counter({
    name: 'livery_key_pool_misses_total',
    help: 'Keys generated on request, because none was ready.',
    labelNames,
    registers,
    collect() {
      this.reset()
      for (const { type, misses } of source.keyPool()) this.inc({ type }, misses)
    },
  })
}

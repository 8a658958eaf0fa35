/** Metrics of the store on disk, counted from the ledger. */

import type { LedgerEvent } from './agent-event.ts'
import type { MetricRow } from './metric-rows.ts'
import { Counter, type Registry } from './prometheus.ts'

export class StoreMetrics {
  readonly #failures: Counter

  constructor(registry: Registry) {
    const registers = [registry]
    this.#failures = new Counter({
      name: 'livery_store_failures_total',
      help: 'Failed attempts to write to the store or to wipe its content. They are repeated.',
      registers,
    })
  }

  record(event: LedgerEvent): void {
    if (event.kind === 'not-stored') this.#failures.inc()
  }
}

/** Without a store the value is 0. */
export function storeMetrics(store: { readonly unwritten: number } | undefined): readonly MetricRow[] {
  return [
    {
      name: 'livery_store_unwritten',
      help: 'Changes that are not on disk yet, those that failed and are tried again included.',
      read: () => store?.unwritten ?? 0,
    },
  ]
}

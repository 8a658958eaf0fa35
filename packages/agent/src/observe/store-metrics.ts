/** Metrics of the store on disk, counted from the ledger. */

import type { LedgerEvent } from './ledger.ts'
import type { MetricRow } from './metric-rows.ts'
import { Counter, type Registry } from './prometheus.ts'

export class StoreMetrics {
  readonly #restored: Counter<'result'>
  readonly #failures: Counter

  constructor(registry: Registry) {
    const registers = [registry]
    this.#restored = new Counter({
      name: 'livery_store_restored_total',
      help: 'Certificates found on disk at the start, by result: store or bootstrap (served), or refused: see the log.',
      labelNames: ['result'],
      registers,
    })
    this.#failures = new Counter({
      name: 'livery_store_failures_total',
      help: 'Failed attempts to write to the store or to wipe its content. They are repeated.',
      registers,
    })
    for (const result of ['store', 'bootstrap', 'refused']) this.#restored.inc({ result }, 0)
  }

  record(event: LedgerEvent): void {
    if (event.kind === 'restored') this.#restored.inc({ result: event.from })
    else if (event.kind === 'not-restored') this.#restored.inc({ result: 'refused' })
    else if (event.kind === 'not-stored') this.#failures.inc()
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

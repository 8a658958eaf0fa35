/** Metrics of the roots that the operator lists, counted from the ledger. */

import { Counter, type Registry } from 'prom-client'
import type { LedgerEvent } from './ledger.ts'

export class TrustMetrics {
  readonly #rejected: Counter<'source'>
  readonly #unavailable: Counter<'source'>

  constructor(registry: Registry) {
    const registers = [registry]
    const labelNames = ['source'] as const
    this.#rejected = new Counter({
      name: 'livery_trust_roots_rejected_total',
      help: 'Roots of a configured list that were left out because they cannot be used, by list.',
      labelNames,
      registers,
    })
    this.#unavailable = new Counter({
      name: 'livery_trust_source_failures_total',
      help: 'Faults of a configured list of roots, by list: it could not be read, or had no usable root. The last one stays.',
      labelNames,
      registers,
    })
  }

  record(event: LedgerEvent): void {
    if (event.kind === 'roots-rejected') this.#rejected.inc({ source: event.source }, event.count)
    else if (event.kind === 'roots-unavailable') this.#unavailable.inc({ source: event.source })
  }
}

/** When revocation lists end, from the ledger. */

import type { LedgerEvent } from './agent-event.ts'
import { Gauge, type Registry } from './prometheus.ts'

export class TrustMetrics {
  readonly #nextUpdate: Gauge<'trust_domain'>

  constructor(registry: Registry) {
    this.#nextUpdate = new Gauge({
      name: 'livery_crl_next_update_timestamp_seconds',
      help: 'When the first of the revocation lists of a trust domain is out of date: verifiers refuse all its peers after it. 0 without one.',
      labelNames: ['trust_domain'],
      registers: [registry],
    })
  }

  /** `name`: `spiffe://…` of the trust domain. */
  record(name: string, event: LedgerEvent): void {
    if (event.kind !== 'crl-changed') return
    this.#nextUpdate.set({ trust_domain: name.slice('spiffe://'.length) }, (event.nextUpdate ?? 0) / 1000)
  }
}

/** Metrics of the roots and revocation lists that the operator gives, from the ledger. */

import type { LedgerEvent } from './ledger.ts'
import { Counter, Gauge, type Registry } from './prometheus.ts'

export class TrustMetrics {
  readonly #rejected: Counter<'source'>
  readonly #unavailable: Counter<'source'>
  readonly #nextUpdate: Gauge<'trust_domain'>

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
      help: 'Faults of a configured list of roots or revocations, by list: it could not be read or used. The last one stays.',
      labelNames,
      registers,
    })
    this.#nextUpdate = new Gauge({
      name: 'livery_crl_next_update_timestamp_seconds',
      help: 'When the first of the revocation lists of a trust domain is out of date: verifiers refuse all its peers after it. 0 without one.',
      labelNames: ['trust_domain'],
      registers,
    })
  }

  /** `name`: `spiffe://…` of the trust domain. */
  record(name: string, event: LedgerEvent): void {
    if (event.kind === 'crl-changed')
      this.#nextUpdate.set({ trust_domain: name.slice('spiffe://'.length) }, (event.nextUpdate ?? 0) / 1000)
    if (event.kind === 'roots-rejected') this.#rejected.inc({ source: event.source }, event.count)
    else if (event.kind === 'roots-unavailable' || event.kind === 'crl-unavailable')
      this.#unavailable.inc({ source: event.source })
  }
}

/** Prometheus metrics: Istio's names where they mean the same, so that its dashboards work, and `livery_*` for the rest. */

import { Registry } from 'prom-client'
import { CaMetrics } from './ca-metrics.ts'
import { type IdentitySource, registerIdentityMetrics } from './identity-metrics.ts'
import { type KeyPoolSource, registerKeyPoolMetrics } from './key-pool-metrics.ts'
import type { LedgerEntry } from './ledger.ts'
import type { PluginCounters } from './plugin-counters.ts'
import { type ProcessSource, registerProcessMetrics } from './process-metrics.ts'
import { ReloadMetrics } from './reload-metrics.ts'
import { SdsMetrics, type SdsSource } from './sds-metrics.ts'
import { StoreMetrics, type StoreSource } from './store-metrics.ts'
import { TrustMetrics } from './trust-metrics.ts'

/** The sources that the metrics read at each scrape. */
export type MetricsSource = IdentitySource &
  KeyPoolSource &
  ProcessSource &
  SdsSource &
  StoreSource & { readonly pluginCounters?: PluginCounters }

/** The metrics of one agent, in a registry of their own. */
export class Metrics implements Disposable {
  readonly sds: SdsMetrics
  readonly reloads: ReloadMetrics
  readonly #registry = new Registry()
  readonly #ca: CaMetrics
  readonly #store: StoreMetrics
  readonly #trust: TrustMetrics
  readonly #process: Disposable

  constructor(source: MetricsSource) {
    this.#ca = new CaMetrics(this.#registry)
    this.#store = new StoreMetrics(this.#registry, source)
    this.#trust = new TrustMetrics(this.#registry)
    this.sds = new SdsMetrics(this.#registry, source)
    this.reloads = new ReloadMetrics(this.#registry, source.clock)
    registerIdentityMetrics(this.#registry, source)
    registerKeyPoolMetrics(this.#registry, source)
    this.#process = registerProcessMetrics(this.#registry, source)
    source.pluginCounters?.showIn(this.#registry)
  }

  /** Counts one entry of the ledger. */
  record(name: string, entry: LedgerEntry): void {
    this.#ca.record(name, entry)
    this.#store.record(entry.event)
    this.#trust.record(entry.event)
    this.sds.record(entry.event)
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  /** The text exposition format of Prometheus. */
  text(): Promise<string> {
    return this.#registry.metrics()
  }

  [Symbol.dispose](): void {
    this.#process[Symbol.dispose]()
    this.#registry.clear()
  }
}

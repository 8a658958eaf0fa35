/** Prometheus metrics: Istio's names where they mean the same, so that its dashboards work, and `livery_*` for the rest. */

import { CaMetrics } from './ca-metrics.ts'
import type { LedgerEntry } from './ledger.ts'
import { LoopTurns } from './loop-turns.ts'
import { type MetricRow, registerRows } from './metric-rows.ts'
import { PluginCounters } from './plugin-counters.ts'
import { EventLoopDelay } from './process-metrics.ts'
import { Registry } from './prometheus.ts'
import { SdsMetrics } from './sds-metrics.ts'

/** The metrics of one agent, in a separate registry. */
export class Metrics implements Disposable {
  readonly #registry = new Registry()
  readonly #ca = new CaMetrics(this.#registry)
  readonly #eventLoop = new EventLoopDelay()
  readonly sds = new SdsMetrics(this.#registry)
  readonly plugins = new PluginCounters(this.#registry)
  readonly #looks: ((turns: LoopTurns) => Promise<void>)[] = []

  constructor() {
    this.add(this.#eventLoop.metrics())
  }

  /** Exports the rows of a part from the next scrape on. `look` is called before each scrape reads them. */
  add(rows: readonly MetricRow[], look?: (turns: LoopTurns) => Promise<void>): void {
    registerRows(this.#registry, rows)
    if (look) this.#looks.push(look)
  }

  /** Counts one entry of the ledger. */
  record(name: string, entry: LedgerEntry): void {
    this.#ca.record(name, entry)
    this.sds.record(entry.event)
  }

  /** Counts a connection to a CA by its key exchange group. */
  connected(group: string): void {
    this.#ca.connected(group)
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  /** The text exposition format of Prometheus, made in slices: thousands of identities block nobody. */
  async text(turns: LoopTurns = new LoopTurns()): Promise<string> {
    for (const look of this.#looks) await look(turns)
    const texts: string[] = []
    for (const { name } of this.#registry.getMetricsAsArray()) {
      await turns.next()
      // The metrics were closed meanwhile.
      if (!this.#registry.getSingleMetric(name)) break
      texts.push(await this.#registry.getSingleMetricAsString(name))
    }
    return `${texts.join('\n\n')}\n`
  }

  [Symbol.dispose](): void {
    this.#eventLoop[Symbol.dispose]()
    this.#registry.clear()
  }
}

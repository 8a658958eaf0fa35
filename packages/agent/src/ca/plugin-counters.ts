/** Counters of CA plugins: made when a plugin asks for them, shown once there is a registry. */
import type { PluginMetrics } from '@livery/core'
import { Counter, type Registry } from 'prom-client'
import { checkCounterName } from './counter-name.ts'

export class PluginCounters implements PluginMetrics {
  readonly #counters = new Map<string, Counter>()
  #registry: Registry | undefined

  /** Throws a `TypeError` for a name that is not in snake_case. */
  counter(name: string, help: string): { add(count?: number): void } {
    checkCounterName(name)
    const counter = this.#counters.get(name) ?? this.#make(name, help)
    return { add: (count = 1) => counter.inc(count) }
  }

  /** Shows those that there are, and those to come. */
  showIn(registry: Registry): void {
    this.#registry = registry
    for (const counter of this.#counters.values()) registry.registerMetric(counter)
  }

  #make(name: string, help: string): Counter {
    const counter = new Counter({ name: `livery_ca_plugin_${name}_total`, help, registers: [] })
    this.#counters.set(name, counter)
    this.#registry?.registerMetric(counter)
    return counter
  }
}

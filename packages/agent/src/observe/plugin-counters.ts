/** Counters of CA plugins, made when a plugin asks for them. */
import { type PluginMetrics, scrub } from '@livery/core/plugin'
import { checkCounterName } from './counter-name.ts'
import { Counter, type Registry } from './prometheus.ts'

/** Limit for all plugins together: each name is a line of every scrape. */
const MAX_COUNTERS = 100

export class PluginCounters implements PluginMetrics {
  readonly #counters = new Map<string, Counter>()
  readonly #registry: Registry

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** Throws a `TypeError` for a name that is not in snake_case, and beyond the limit; `add` ignores values that are not counts. */
  counter(name: string, help: string): { add(count?: number): void } {
    checkCounterName(name)
    const counter = this.#counters.get(name) ?? this.#make(name, help)
    return { add: (count = 1) => void (Number.isFinite(count) && count >= 0 && counter.inc(count)) }
  }

  #make(name: string, help: string): Counter {
    if (this.#counters.size >= MAX_COUNTERS)
      throw new TypeError(`Cannot count ${name}: there are ${MAX_COUNTERS} counters of plugins already. Count less.`)
    const counter = new Counter({
      name: `livery_ca_plugin_${name}_total`,
      help: scrub(help) || name,
      registers: [this.#registry],
    })
    this.#counters.set(name, counter)
    return counter
  }
}

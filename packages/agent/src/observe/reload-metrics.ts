/** Metrics of the configuration as it is read again. */
import type { Clock } from '@livery/core'
import { Counter, Gauge, type Registry } from './prometheus.ts'

export class ReloadMetrics {
  readonly #clock: Clock
  readonly #reloads: Counter<'result'>
  readonly #lastSuccess: Gauge

  constructor(registry: Registry, clock: Clock) {
    this.#clock = clock
    this.#reloads = new Counter({
      name: 'livery_config_reload_total',
      help: 'Times the configuration was read again, by result: success, or failure, which leaves the old one in force.',
      labelNames: ['result'],
      registers: [registry],
    })
    this.#lastSuccess = new Gauge({
      name: 'livery_config_last_reload_success_timestamp_seconds',
      help: 'When the configuration in force was read.',
      registers: [registry],
    })
    for (const result of ['success', 'failure']) this.#reloads.inc({ result }, 0)
    this.#lastSuccess.set(clock.now() / 1000)
  }

  count(result: 'success' | 'failure'): void {
    this.#reloads.inc({ result })
    if (result === 'success') this.#lastSuccess.set(this.#clock.now() / 1000)
  }
}

/** Metrics of the configuration as it is read again. */
import { Counter, type Registry } from './prometheus.ts'

export class ReloadMetrics {
  readonly #reloads: Counter<'result'>

  constructor(registry: Registry) {
    this.#reloads = new Counter({
      name: 'livery_config_reload_total',
      help: 'Times the configuration was read again, by result: success, or failure, which leaves the old one in force.',
      labelNames: ['result'],
      registers: [registry],
    })
    for (const result of ['success', 'failure']) this.#reloads.inc({ result }, 0)
  }

  count(result: 'success' | 'failure'): void {
    this.#reloads.inc({ result })
  }
}

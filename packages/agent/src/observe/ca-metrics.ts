/** Metrics of the calls to the CA, counted from the ledger; a scrape turns the counts into metrics. */

import { CA_ERROR_CODES } from '@livery/core/plugin'
import { WITHDRAWN } from './event-words.ts'
import type { LedgerEntry } from './ledger.ts'
import { type MetricRow, registerRows } from './metric-rows.ts'
import { Counter, Histogram, type Registry } from './prometheus.ts'

/** The agent's only kind of request; Istio's agent has others, so its metrics have the label. */
const CSR = 'csr'

export class CaMetrics {
  readonly #inFlight = new Map<string, { readonly reason: string; readonly since: number }>()
  readonly #finished = new Map<string, Finished>()
  readonly #errors: Counter<'code'>
  readonly #connections: Counter<'group'>
  readonly #withdrawn: Counter<'reason'>
  readonly #preflight: Counter<'served'>
  readonly #duration: Histogram<'result'>
  readonly #istio: IstioMetrics

  constructor(registry: Registry) {
    const registers = [registry]
    registerRows(registry, [
      {
        name: 'livery_certificate_requests_total',
        help: 'Certificates requested from the CA, by reason and result.',
        labels: ['reason', 'result'],
        read: () =>
          Array.from(this.#finished.values(), ({ count, reason, result }) => [count, reason, result] as const),
      },
    ])
    this.#errors = new Counter({
      name: 'livery_ca_errors_total',
      help: 'Errors of the CA and rejected answers, by code.',
      labelNames: ['code'],
      registers,
    })
    this.#connections = new Counter({
      name: 'livery_ca_connections_total',
      help: 'TLS connections to the CA, by key exchange group: X25519MLKEM768 is a post-quantum one.',
      labelNames: ['group'],
      registers,
    })
    this.#withdrawn = new Counter({
      name: 'livery_certificates_withdrawn_total',
      help: 'Certificates no longer served, by reason: expired (no new one came in time), forgotten, idle, evicted or deleted (a Secret of Kubernetes).',
      labelNames: ['reason'],
      registers,
    })
    this.#preflight = new Counter({
      name: 'livery_preflight_failures_total',
      help: 'Certificates that clients would refuse with the roots that they are served: withheld (served="false"), or served since no better one exists.',
      labelNames: ['served'],
      registers,
    })
    this.#duration = new Histogram({
      name: 'livery_ca_request_duration_seconds',
      help: 'Time from making the CSR to the checked certificate, or to the error.',
      labelNames: ['result'],
      buckets: [0.005, 0.02, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    })
    // A counter that first appears with its first error has no rate then.
    for (const code of CA_ERROR_CODES) this.#errors.inc({ code }, 0)
    for (const served of ['true', 'false']) this.#preflight.inc({ served }, 0)
    for (const reason of Object.keys(WITHDRAWN)) this.#withdrawn.inc({ reason }, 0)
    this.#istio = new IstioMetrics(registry)
  }

  connected(group: string): void {
    this.#connections.inc({ group })
  }

  record(name: string, { time, event }: LedgerEntry): void {
    switch (event.kind) {
      case 'csr-sent':
        this.#inFlight.set(name, { reason: event.reason, since: time })
        this.#istio.requests++
        break
      case 'issued':
        this.#finish(name, time, 'issued')
        break
      case 'ca-error':
        this.#errors.inc({ code: event.code })
        this.#finish(name, time, 'failed')
        break
      case 'preflight-failed':
        this.#preflight.inc({ served: `${event.isServed}` })
        break
      case 'retry-planned':
        this.#istio.retries++
        break
      case 'withdrawn':
        this.#withdrawn.inc({ reason: event.reason })
        if (event.reason !== 'expired') this.#inFlight.delete(name)
        break
    }
  }

  #finish(name: string, time: number, result: 'issued' | 'failed'): void {
    const request = this.#inFlight.get(name)
    // Errors about the bundle of a trust domain belong to no CSR.
    if (!request) return
    this.#inFlight.delete(name)
    const ms = Math.max(0, time - request.since)
    this.#count(request.reason, result)
    this.#duration.observe({ result }, ms / 1000)
    this.#istio.latency += ms
    if (result === 'failed') this.#istio.failures++
  }

  #count(reason: string, result: Finished['result']): void {
    const key = `${reason} ${result}`
    const finished = this.#finished.get(key) ?? { reason, result, count: 0 }
    finished.count++
    this.#finished.set(key, finished)
  }
}

/** A count of requests with the same outcome. */
interface Finished {
  readonly reason: string
  readonly result: 'issued' | 'failed'
  count: number
}

/**
 * The same values under the names of Istio's agent. They only grow, but are typed as gauges: Prometheus requires `_total` at
 * the end of a counter's name, and `rate()` ignores the type.
 */
class IstioMetrics {
  requests = 0
  failures = 0
  retries = 0
  latency = 0

  constructor(registry: Registry) {
    const gauge = (name: string, help: string, read: () => number): MetricRow => ({
      name: `istio_agent_${name}`,
      help,
      labels: ['request_type'],
      read: () => [[read(), CSR]],
    })
    registerRows(registry, [
      gauge('num_outgoing_requests', 'Requests to the CA so far.', () => this.requests),
      gauge('num_failed_outgoing_requests', 'Requests to the CA that failed so far.', () => this.failures),
      gauge('num_outgoing_retries', 'Requests to the CA that were tried again so far.', () => this.retries),
      gauge('outgoing_latency', 'Sum of the latencies of all requests to the CA so far, in ms.', () => this.latency),
    ])
  }
}

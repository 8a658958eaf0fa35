/** Metrics of the calls to the CA, counted from the ledger. */

import { CA_ERROR_CODES } from '@livery/core'
import type { LedgerEntry } from './ledger.ts'
import { Counter, Gauge, Histogram, type Registry } from './prometheus.ts'

/** The one kind of request that the agent sends out; Istio's agent has others, so its metrics have the label. */
const CSR = { request_type: 'csr' } as const

export class CaMetrics {
  readonly #inFlight = new Map<string, { readonly reason: string; readonly since: number }>()
  readonly #requests: Counter<'reason' | 'result'>
  readonly #errors: Counter<'code'>
  readonly #retries: Counter
  readonly #down: Gauge
  readonly #withdrawn: Counter<'reason'>
  readonly #preflight: Counter<'served'>
  readonly #duration: Histogram<'result'>
  readonly #istio: IstioMetrics

  constructor(registry: Registry) {
    const registers = [registry]
    this.#requests = new Counter({
      name: 'livery_certificate_requests_total',
      help: 'Certificates requested from the CA, by reason and result.',
      labelNames: ['reason', 'result'],
      registers,
    })
    this.#errors = new Counter({
      name: 'livery_ca_errors_total',
      help: 'Errors of the CA and rejected answers, by code.',
      labelNames: ['code'],
      registers,
    })
    this.#retries = new Counter({
      name: 'livery_ca_retries_total',
      help: 'Retries scheduled after an error.',
      registers,
    })
    this.#down = new Gauge({
      name: 'livery_ca_down',
      help: '1 while the CA as a whole does not answer and one request at a time probes it, else 0.',
      registers,
    })
    this.#withdrawn = new Counter({
      name: 'livery_certificates_withdrawn_total',
      help: 'Certificates no longer served, by reason: expired (no new one came in time), forgotten, idle or evicted.',
      labelNames: ['reason'],
      registers,
    })
    this.#preflight = new Counter({
      name: 'livery_preflight_failures_total',
      help: 'Certificates that clients would refuse with the roots that they are served: withheld (served="false"), or served for want of a better one.',
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
    // A counter that appears with its first error has no rate then.
    for (const code of CA_ERROR_CODES) this.#errors.inc({ code }, 0)
    for (const served of ['true', 'false']) this.#preflight.inc({ served }, 0)
    for (const reason of ['expired', 'forgotten', 'idle', 'evicted']) this.#withdrawn.inc({ reason }, 0)
    this.#istio = new IstioMetrics(registry)
  }

  record(name: string, { time, event }: LedgerEntry): void {
    switch (event.kind) {
      case 'csr-sent':
        this.#inFlight.set(name, { reason: event.reason, since: time })
        this.#istio.requests.inc(CSR)
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
        this.#retries.inc()
        this.#istio.retries.inc(CSR)
        break
      case 'ca-down':
        this.#down.set(1)
        break
      case 'ca-back':
        this.#down.set(0)
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
    this.#requests.inc({ reason: request.reason, result })
    this.#duration.observe({ result }, ms / 1000)
    this.#istio.latency.inc(CSR, ms)
    if (result === 'failed') this.#istio.failures.inc(CSR)
  }
}

/**
 * The same values under the names of Istio's agent. They only grow, and yet are typed as gauges: Prometheus wants `_total` at
 * the end of a counter's name, and `rate()` does not look at the type.
 */
class IstioMetrics {
  readonly requests: Gauge<'request_type'>
  readonly failures: Gauge<'request_type'>
  readonly retries: Gauge<'request_type'>
  readonly latency: Gauge<'request_type'>

  constructor(registry: Registry) {
    const gauge = (name: string, help: string) => {
      const made = new Gauge({ name: `istio_agent_${name}`, help, labelNames: ['request_type'], registers: [registry] })
      made.set(CSR, 0)
      return made
    }
    this.requests = gauge('num_outgoing_requests', 'Requests to the CA so far.')
    this.failures = gauge('num_failed_outgoing_requests', 'Requests to the CA that failed so far.')
    this.retries = gauge('num_outgoing_retries', 'Requests to the CA that were tried again so far.')
    this.latency = gauge('outgoing_latency', 'Sum of the latencies of all requests to the CA so far, in ms.')
  }
}

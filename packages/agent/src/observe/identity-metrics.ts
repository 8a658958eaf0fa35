/** Metrics of the certificates and roots that the agent holds, read at each scrape. */
import type { BundleEntry, Clock, IdentityEntry } from '@livery/core'
import { Gauge, type Registry } from 'prom-client'

export interface IdentitySource {
  readonly clock: Clock
  entries(): readonly IdentityEntry[]
  bundles(): readonly BundleEntry[]
}

/** Above this number of identities one series per identity costs the scraper too much: only summaries are exported. */
const MAX_SERIES = 1_000

type Read = (entry: IdentityEntry) => number | undefined

export function registerIdentityMetrics(registry: Registry, source: IdentitySource): void {
  registerSummaries(registry, source)
  registerTrustAnchors(registry, source)
  const perIdentity = (name: string, help: string, label: 'identity' | 'resource_name', read: Read): void => {
    new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      collect() {
        this.reset()
        const entries = source.entries()
        if (entries.length > MAX_SERIES) return
        for (const entry of entries) {
          const value = read(entry)
          if (value !== undefined) this.set({ [label]: entry.identity }, value)
        }
      },
    })
  }
  perIdentity(
    'livery_certificate_expiration_timestamp_seconds',
    'When the certificate that is served ends. Only with up to 1,000 identities.',
    'identity',
    ({ secret }) => secret && secret.notAfter / 1000,
  )
  perIdentity(
    'istio_agent_cert_expiry_seconds',
    'Time until the certificate that is served ends. Only with up to 1,000 identities.',
    'resource_name',
    ({ secret }) => secret && (secret.notAfter - source.clock.now()) / 1000,
  )
  perIdentity(
    'livery_certificate_last_success_timestamp_seconds',
    'When the CA last issued. Only with up to 1,000 identities.',
    'identity',
    ({ lastSuccessAt }) => lastSuccessAt && lastSuccessAt / 1000,
  )
  perIdentity(
    'livery_certificate_last_failure_timestamp_seconds',
    'When the CA last failed to issue. Only with up to 1,000 identities.',
    'identity',
    ({ lastFailure }) => lastFailure && lastFailure.at / 1000,
  )
}

function registerSummaries(registry: Registry, source: IdentitySource): void {
  new Gauge({
    name: 'livery_identities',
    help: 'Identities, by state: initializing, available, unavailable, or idle: without a certificate until it is used.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      const counts = { initializing: 0, available: 0, unavailable: 0, idle: 0 }
      for (const { state } of source.entries()) counts[state]++
      for (const [state, count] of Object.entries(counts)) this.set({ state }, count)
    },
  })
  new Gauge({
    name: 'livery_identities_held',
    help: 'Identities, by what holds them: pinned (configured), on-demand, or removed a short while ago.',
    labelNames: ['hold'],
    registers: [registry],
    collect() {
      const counts = { pinned: 0, 'on-demand': 0, removed: 0 }
      for (const { hold } of source.entries()) counts[hold]++
      for (const [hold, count] of Object.entries(counts)) this.set({ hold }, count)
    },
  })
  new Gauge({
    name: 'livery_certificates_earliest_expiration_timestamp_seconds',
    help: 'When the first of the served certificates expires; absent while there are none.',
    labelNames: [],
    registers: [registry],
    collect() {
      this.remove()
      const ends = source.entries().flatMap(({ secret }) => (secret ? [secret.notAfter] : []))
      if (ends.length > 0) this.set(ends.reduce((a, b) => Math.min(a, b)) / 1000)
    },
  })
}

function registerTrustAnchors(registry: Registry, source: IdentitySource): void {
  new Gauge({
    name: 'livery_trust_anchor_expiration_timestamp_seconds',
    help: 'When a root of a trust bundle expires.',
    labelNames: ['trust_domain', 'fingerprint'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { trustDomain, roots } of source.bundles()) {
        for (const { fingerprint, notAfter } of roots)
          this.set({ trust_domain: trustDomain, fingerprint }, notAfter / 1000)
      }
    },
  })
}

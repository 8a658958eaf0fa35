/** Metrics of the certificates and roots that the agent holds. */
import type { BundleEntry, Clock, IdentityEntry, RotationPhase, RotationStatus } from '@livery/core'
import type { MetricRow, Sample } from './metric-rows.ts'

export interface IdentitySource {
  entries(): readonly IdentityEntry[]
  bundles(): readonly BundleEntry[]
  rotations(): readonly RotationStatus[]
}

/** Above this number of identities one series per identity costs the scraper too much: only summaries are exported. */
const MAX_SERIES = 1_000

export function identityMetrics(source: IdentitySource, clock: Clock): readonly MetricRow[] {
  const perIdentity = (read: (entry: IdentityEntry) => number | undefined) => () =>
    samplesPerIdentity(source.entries(), read)
  return [
    {
      name: 'livery_identities',
      help: 'Identities, by state: initializing, available, unavailable, or idle: without a certificate until it is used.',
      labels: ['state'],
      read: () => count(source.entries(), ['initializing', 'available', 'unavailable', 'idle'], ({ state }) => state),
    },
    {
      name: 'livery_identities_held',
      help: 'Identities, by what holds them: pinned (configured), on-demand, or removed a short while ago.',
      labels: ['hold'],
      read: () => count(source.entries(), ['pinned', 'on-demand', 'removed'], ({ hold }) => hold),
    },
    {
      name: 'livery_certificates_earliest_expiration_timestamp_seconds',
      help: 'When the first of the served certificates expires; absent while there are none.',
      read: () => earliestExpiration(source.entries()),
    },
    {
      name: 'livery_ca_clock_ahead_seconds',
      help: 'The notBefore of the newest certificate minus the time when it came: the clock of the CA is ahead at least by so much. Below zero: it back-dates certificates, or its clock is behind.',
      read: () => caClockAhead(source.entries()),
    },
    {
      name: 'livery_trust_anchor_expiration_timestamp_seconds',
      help: 'When a root of a trust bundle expires.',
      labels: ['trust_domain', 'fingerprint'],
      read: () => source.bundles().flatMap(rootExpirations),
    },
    {
      name: 'livery_root_rotation_phase',
      help: 'The phase of the root rotation of a trust domain, 1 for the one that it is in: announcing, renewing, retiring, steady.',
      labels: ['trust_domain', 'phase'],
      read: () => source.rotations().flatMap(phaseSamples),
    },
    {
      name: 'livery_root_waiting_clients',
      help: 'Clients that have not accepted a root that is announced, or have rejected it: livery trust status names them.',
      labels: ['trust_domain', 'fingerprint'],
      read: () => source.rotations().flatMap(perRoot(({ waiting }) => waiting)),
    },
    {
      name: 'livery_root_certificates',
      help: 'Certificates under a root that are served or wait.',
      labels: ['trust_domain', 'fingerprint'],
      read: () => source.rotations().flatMap(perRoot(({ leaves }) => leaves)),
    },
    {
      name: 'livery_certificate_expiration_timestamp_seconds',
      help: 'When the certificate that is served ends. Only with up to 1,000 identities.',
      labels: ['identity'],
      read: perIdentity(({ secret }) => secret && secret.notAfter / 1000),
    },
    {
      name: 'istio_agent_cert_expiry_seconds',
      help: 'Time until the certificate that is served ends. Only with up to 1,000 identities.',
      labels: ['resource_name'],
      read: perIdentity(({ secret }) => secret && (secret.notAfter - clock.now()) / 1000),
    },
    {
      name: 'livery_certificate_last_success_timestamp_seconds',
      help: 'When the CA last issued. Only with up to 1,000 identities.',
      labels: ['identity'],
      read: perIdentity(({ lastSuccessAt }) => lastSuccessAt && lastSuccessAt / 1000),
    },
    {
      name: 'livery_certificate_last_failure_timestamp_seconds',
      help: 'When the CA last failed to issue. Only with up to 1,000 identities.',
      labels: ['identity'],
      read: perIdentity(({ lastFailure }) => lastFailure && lastFailure.at / 1000),
    },
  ]
}

function samplesPerIdentity(
  entries: readonly IdentityEntry[],
  read: (entry: IdentityEntry) => number | undefined,
): readonly Sample[] {
  if (entries.length > MAX_SERIES) return []
  return entries.flatMap(entry => {
    const value = read(entry)
    return value === undefined ? [] : [[value, entry.identity] satisfies Sample]
  })
}

/** How many entries have each of the values, those that none has included. */
function count<Value extends string>(
  entries: readonly IdentityEntry[],
  values: readonly Value[],
  read: (entry: IdentityEntry) => Value,
): readonly Sample[] {
  const counts = new Map(values.map(value => [value, 0]))
  for (const entry of entries) counts.set(read(entry), (counts.get(read(entry)) ?? 0) + 1)
  return Array.from(counts, ([value, count]) => [count, value])
}

/** A CA that back-dates by a constant shows a change of its clock, or of ours, as a change of this. */
function caClockAhead(entries: readonly IdentityEntry[]): number | undefined {
  let newest: { readonly at: number; readonly notBefore: number } | undefined
  for (const { secret, lastSuccessAt: at } of entries)
    if (secret && at !== undefined && at > (newest?.at ?? Number.NEGATIVE_INFINITY))
      newest = { at, notBefore: secret.notBefore }
  return newest && (newest.notBefore - newest.at) / 1000
}

function earliestExpiration(entries: readonly IdentityEntry[]): number | undefined {
  const ends = entries.flatMap(({ secret }) => (secret ? [secret.notAfter] : []))
  return ends.length === 0 ? undefined : ends.reduce((a, b) => Math.min(a, b)) / 1000
}

function rootExpirations({ trustDomain, roots }: BundleEntry): readonly Sample[] {
  return roots.map(({ fingerprint, notAfter }) => [notAfter / 1000, trustDomain, fingerprint])
}

const PHASES: readonly RotationPhase[] = ['announcing', 'renewing', 'retiring', 'steady']

function phaseSamples({ trustDomain, phase }: RotationStatus): readonly Sample[] {
  return PHASES.map(each => [each === phase ? 1 : 0, trustDomain, each])
}

function perRoot(read: (root: RotationStatus['roots'][number]) => number) {
  return ({ trustDomain, roots }: RotationStatus): readonly Sample[] =>
    roots.map(root => [read(root), trustDomain, root.fingerprint])
}

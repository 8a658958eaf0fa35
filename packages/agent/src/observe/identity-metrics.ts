/** Metrics of the certificates and roots that the agent holds. */
import type { BundleEntry, RotationPhase, RotationStatus, ScheduleStatus } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { IdentityList } from '../diagnosis/diagnosis.ts'
import type { Moment } from '../diagnosis/identity-verdict.ts'
import { IdentitySummary, type OwnSeries, summarize } from './identity-summary.ts'
import type { LoopTurns } from './loop-turns.ts'
import type { MetricRow, Sample } from './metric-rows.ts'

interface IdentitySource extends IdentityList {
  bundles(): readonly BundleEntry[]
  rotations(): readonly RotationStatus[]
  schedule(): Pick<ScheduleStatus, 'downSince'>
}

const MINUTE = 60
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const REMAINING_BUCKETS = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY, 30 * DAY]

const WHOSE_SERIES = 'Above 1,000 certificates only of the 100 with the least life left.'

/** Each scrape looks at every identity once, for all rows. */
export class IdentityMetrics {
  readonly #source: IdentitySource
  readonly #clock: Clock
  readonly #ca: string | undefined
  #summary: IdentitySummary

  /** `ca`: the label for the signing CA; `undefined` if certificates were signed before they are fetched. */
  constructor(source: IdentitySource, clock: Clock, ca: string | undefined) {
    this.#source = source
    this.#clock = clock
    this.#ca = ca
    this.#summary = new IdentitySummary(this.#moment())
  }

  /** Call before the rows are read. */
  async look(turns: LoopTurns): Promise<void> {
    this.#summary = await summarize(this.#source, this.#moment(), turns)
  }

  #moment(): Moment {
    return { now: this.#clock.now(), downSince: this.#source.schedule().downSince }
  }

  rows(): readonly MetricRow[] {
    return [...this.#countRows(), ...this.#trustRows(), ...this.#ownRows()]
  }

  #countRows(): readonly MetricRow[] {
    return [
      {
        name: 'livery_identities',
        help: 'Identities, by state: initializing, available, renewing, failing (the last attempt failed: with its old certificate, or without one), expired, idle.',
        labels: ['state'],
        read: () => samplesOf(this.#summary.states),
      },
      {
        name: 'livery_identities_failing',
        help: 'Identities that fail to get a certificate, with one that is still valid or without, by the code of the error; while the CA does not answer, those that failed before count as unavailable; revoked: a revocation list names the certificate in use.',
        labels: ['code'],
        read: () => samplesOf(this.#summary.failing),
      },
      {
        name: 'livery_ca_down',
        help: '1 while the CA as a whole does not answer and one request at a time probes it, else 0.',
        read: () => (this.#moment().downSince === undefined ? 0 : 1),
      },
      {
        name: 'livery_certificate_remaining_seconds',
        help: 'Time until the end of the certificates that are served now. Its values change with each scrape: do not use rate() on them.',
        buckets: REMAINING_BUCKETS,
        read: () => this.#summary.remaining,
      },
      {
        name: 'livery_certificates_earliest_expiration_timestamp_seconds',
        help: 'When the first of the served certificates expires; absent while there are none.',
        read: () => inSeconds(this.#summary.earliestEnd),
      },
      {
        name: 'livery_outage_survived_seconds',
        help: 'How long every identity that has a certificate would keep one if the CA gave none from now on; absent while there are none. A certificate that is revoked does not count.',
        read: () => this.#outageSurvived(),
      },
      {
        name: 'livery_certificates_late',
        help: 'Certificates with less than a quarter of their life left that were not renewed as planned (warning), or less than a tenth (critical), as the page and livery doctor report them.',
        labels: ['severity'],
        read: () => samplesOf(this.#summary.late),
      },
      {
        name: 'livery_certificates_least_remaining_ratio',
        help: 'The least part of its life since it came that a served certificate has left, from 1 to 0; absent while there are none.',
        read: () => this.#summary.leastRemaining,
      },
      {
        name: 'livery_ca_clock_ahead_seconds',
        help: 'The notBefore of the newest certificate minus the time when it came: the clock of the CA is ahead by at least this much. Below zero: it back-dates certificates, or its clock is behind. Absent for a source that gives certificates which were signed earlier.',
        labels: ['ca'],
        read: () => this.#clockSamples(),
      },
    ]
  }

  #outageSurvived(): number | undefined {
    const { leastLasting } = this.#summary
    return leastLasting === undefined ? undefined : Math.max(0, leastLasting - this.#clock.now()) / 1000
  }

  #clockSamples(): readonly Sample[] {
    const ahead = inSeconds(this.#summary.caClockAhead)
    return ahead === undefined || this.#ca === undefined ? [] : [[ahead, this.#ca]]
  }

  #trustRows(): readonly MetricRow[] {
    const source = this.#source
    return [
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
    ]
  }

  #ownRows(): readonly MetricRow[] {
    const perIdentity = (read: (own: OwnSeries) => number) => () =>
      this.#summary.ownSeries.map((own): Sample => [read(own), own.identity])
    return [
      {
        name: 'livery_certificate_expiration_timestamp_seconds',
        help: `When the certificate that is served ends. ${WHOSE_SERIES}`,
        labels: ['identity'],
        read: perIdentity(({ notAfter }) => notAfter / 1000),
      },
      {
        name: 'istio_agent_cert_expiry_seconds',
        help: `Time until the certificate that is served ends. ${WHOSE_SERIES}`,
        labels: ['resource_name'],
        read: perIdentity(({ notAfter }) => (notAfter - this.#clock.now()) / 1000),
      },
    ]
  }
}

function inSeconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000
}

function samplesOf(counts: ReadonlyMap<string, number>): readonly Sample[] {
  return Array.from(counts, ([value, count]) => [count, value])
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

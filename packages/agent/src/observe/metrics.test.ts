import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { totalmem } from 'node:os'
import { test } from 'node:test'
import { SecretManager, type SecretManagerOptions } from '@livery/core'
import { CAError, parseSpiffeId } from '@livery/core/plugin'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import { storeMetrics } from '../store/module.ts'
import type { LedgerEvent } from './agent-event.ts'
import { IdentityMetrics } from './identity-metrics.ts'
import { Metrics } from './metrics.ts'
import { processMetrics } from './process-metrics.ts'
import { scheduleMetrics } from './schedule-metrics.ts'
import { type SocketLoad, socketMetrics } from './sds-metrics.ts'

const WEB = parseSpiffeId('spiffe://cluster.local/ns/default/sa/web')

class Bench implements AsyncDisposable {
  readonly clock: FakeClock
  readonly ca: TestCA
  readonly secrets: SecretManager
  readonly metrics: Metrics
  dropped = 0
  readonly sockets: SocketLoad[] = [{ path: '/run/a.sock', state: 'listening', connections: 2, streams: 5 }]

  private constructor(ca: TestCA, clock: FakeClock, options: Partial<SecretManagerOptions>) {
    this.clock = clock
    this.ca = ca
    this.secrets = new SecretManager({
      ca,
      clock,
      keyGenerator: new TestKeyGenerator(),
      trustDomain: 'cluster.local',
      random: () => 0,
      ...options,
    })
    this.secrets.events.subscribe(report => this.metrics.record(report.name, report))
    this.metrics = new Metrics()
    this.metrics.add([
      ...processMetrics({ version: '1.2.3', keyGenerator: 'native', droppedLogLines: () => this.dropped }),
      ...storeMetrics({ unwritten: 4 }, this.secrets.events),
      ...scheduleMetrics(this.secrets),
      ...socketMetrics({ sockets: () => this.sockets }),
    ])
    const identities = new IdentityMetrics(this.secrets, clock, 'citadel at istiod:15012')
    this.metrics.add(identities.rows(), turns => identities.look(turns))
  }

  static async create(options: Partial<SecretManagerOptions> = {}): Promise<Bench> {
    const clock = new FakeClock()
    return new Bench(await TestCA.create(clock), clock, options)
  }

  async hold(): Promise<void> {
    this.secrets.add(WEB)
    await this.secrets.get({ kind: 'identity', identity: WEB }, { signal: AbortSignal.timeout(10_000) })
  }

  /** The samples by name and labels. */
  async samples(): Promise<ReadonlyMap<string, number>> {
    return new Map(parse(await this.metrics.text()).map(({ series, value }) => [series, value]))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.secrets[Symbol.asyncDispose]()
    this.metrics[Symbol.dispose]()
  }
}

/** Reads the text format strictly: every family has HELP and TYPE before its samples, and no series comes twice. */
function parse(text: string): { readonly series: string; readonly value: number }[] {
  const families = new Map<string, { help: boolean; type: string | undefined }>()
  const samples: { series: string; value: number }[] = []
  for (const line of text.split('\n')) {
    const [, keyword, name = '', rest] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? []
    if (keyword !== undefined) {
      const family = families.get(name) ?? { help: false, type: undefined }
      families.set(name, keyword === 'HELP' ? { ...family, help: true } : { ...family, type: rest })
    } else if (line !== '') {
      const sample = /^([a-z_][a-z0-9_]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (-?[\d.e+-]+|\+Inf|NaN)$/i.exec(
        line,
      )
      assert.ok(sample, `no sample: ${line}`)
      const [, sampleName = '', labels = '', value] = sample
      const family = families.get(sampleName.replace(/_(bucket|sum|count)$/, '')) ?? families.get(sampleName)
      assert.ok(family?.help && family.type, `${sampleName} has no HELP or no TYPE`)
      samples.push({ series: sampleName + labels, value: Number(value) })
    }
  }
  assert.equal(new Set(samples.map(({ series }) => series)).size, samples.length)
  return samples
}

const EVERYTHING: readonly LedgerEvent[] = [
  { kind: 'asked', by: 'x' },
  { kind: 'refused', by: 'x', reason: 'y' },
  { kind: 'csr-sent', reason: 'renewal' },
  { kind: 'ca-error', code: 'rate-limited', message: 'x' },
  { kind: 'retry-planned', at: 1 },
  { kind: 'roots-changed', version: 'v', roots: 1 },
  { kind: 'withdrawn', reason: 'expired' },
  { kind: 'withdrawn', reason: 'evicted' },
  { kind: 'no-room', maxIdentities: 1 },
  { kind: 'removed', until: 1 },
  { kind: 'kept' },
  { kind: 'pushed', to: 'x', version: 'v' },
  { kind: 'acked', by: 'x', version: 'v' },
  { kind: 'nacked', by: 'x', version: 'v', detail: 'secret detail' },
]

test('the text is valid, has HELP and TYPE for every metric, and contains no peer text', async () => {
  await using bench = await Bench.create()
  await bench.hold()
  for (const event of EVERYTHING) bench.metrics.record('a"\\\nb', { time: 0, event })
  const text = await bench.metrics.text()
  assert.ok(parse(text).length > 40)
  assert.doesNotMatch(text, /secret detail|PRIVATE KEY/)
})

const promtool = spawnSync('promtool', ['--version']).error ? 'promtool is not on PATH' : false

test('promtool has nothing to say', { skip: promtool }, async () => {
  await using bench = await Bench.create()
  await bench.hold()
  for (const event of EVERYTHING) bench.metrics.record(WEB, { time: 0, event })
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: await bench.metrics.text() })
  assert.deepEqual([status, String(stdout) + String(stderr)], [0, ''])
})

test("Istio's dashboards find their names", async () => {
  await using bench = await Bench.create()
  await bench.hold()
  const samples = await bench.samples()
  assert.equal(samples.get('istio_agent_num_outgoing_requests{request_type="csr"}'), 1)
  assert.equal(samples.get('istio_agent_num_failed_outgoing_requests{request_type="csr"}'), 0)
  assert.ok(samples.has('istio_agent_outgoing_latency{request_type="csr"}'))
  const left = samples.get(`istio_agent_cert_expiry_seconds{resource_name="${WEB}"}`) ?? 0
  assert.equal(left, ((bench.secrets.entries()[0]?.secret?.notAfter ?? 0) - bench.clock.now()) / 1000)
})

test('the expiry of certificates and roots is reported in seconds since the epoch', async () => {
  await using bench = await Bench.create()
  await bench.hold()
  const samples = await bench.samples()
  const notAfter = (bench.secrets.entries()[0]?.secret?.notAfter ?? 0) / 1000
  assert.equal(samples.get(`livery_certificate_expiration_timestamp_seconds{identity="${WEB}"}`), notAfter)
  assert.equal(samples.get('livery_certificates_earliest_expiration_timestamp_seconds'), notAfter)
  assert.equal(samples.get('livery_ca_clock_ahead_seconds{ca="citadel at istiod:15012"}'), -1)
  const [root] = bench.secrets.bundles()[0]?.roots ?? []
  assert.equal(
    samples.get(
      `livery_trust_anchor_expiration_timestamp_seconds{trust_domain="cluster.local",fingerprint="${root?.fingerprint}"}`,
    ),
    (root?.notAfter ?? 0) / 1000,
  )
  assert.equal(samples.get('livery_identities{state="available"}'), 1)
})

test('the least that is left of a served certificate is a part of its life since it came', async () => {
  await using bench = await Bench.create({ maxIdentities: 2 })
  assert.equal((await bench.samples()).get('livery_certificates_least_remaining_ratio'), undefined)
  await bench.hold()
  const { notBefore = 0, notAfter = 0 } = bench.secrets.entries()[0]?.secret ?? {}
  const cameAt = bench.clock.now()
  // The CA back-dates.
  assert.ok(notBefore < cameAt)
  bench.ca.answer = () => Promise.reject(new CAError('denied', 'Cannot issue.'))
  await bench.clock.advance((notAfter - bench.clock.now()) * 0.9)
  const least = (await bench.samples()).get('livery_certificates_least_remaining_ratio')
  assert.equal(least, (notAfter - bench.clock.now()) / (notAfter - cameAt))
  assert.ok(least !== undefined && least > 0.09 && least < 0.11)
  const lasts = (await bench.samples()).get('livery_outage_survived_seconds')
  assert.equal(lasts, (notAfter - bench.clock.now()) / 1000)
})

test('the memory that the process can have is at least what it has', async () => {
  await using bench = await Bench.create()
  const samples = await bench.samples()
  const at = (name: string): number => samples.get(name) ?? Number.NaN
  assert.ok(at('livery_memory_limit_bytes') >= at('process_resident_memory_bytes'))
  assert.ok(at('livery_memory_limit_bytes') <= totalmem())
  assert.ok(at('nodejs_heap_limit_bytes') >= at('nodejs_heap_used_bytes'))
})

test('identities that were dropped are counted by why', async () => {
  await using bench = await Bench.create({ maxIdentities: 2, idle: { action: 'drop', afterMs: 1_000 } })
  await bench.hold()
  const ask = (name: string) => {
    const identity = parseSpiffeId(`spiffe://cluster.local/${name}`)
    const watch = bench.secrets.watch({ kind: 'identity', identity }, () => {})
    bench.secrets.request(identity)
    return watch
  }
  ask('a')[Symbol.dispose]()
  using _b = ask('b')
  ask('c')[Symbol.dispose]()
  await bench.clock.advance(1_000)
  const samples = await bench.samples()
  const at = (name: string, label: string, value: string) => samples.get(`livery_${name}{${label}="${value}"}`)
  assert.equal(at('identities', 'state', 'idle'), 1)
  assert.equal(at('certificates_withdrawn_total', 'reason', 'evicted'), 1)
  assert.equal(at('certificates_withdrawn_total', 'reason', 'idle'), 1)
})

test('requests are counted by what made them due and how they ended', async () => {
  await using bench = await Bench.create()
  const failed = Promise.withResolvers<void>()
  bench.ca.answer = () => {
    failed.resolve()
    return Promise.reject(new CAError('denied', 'Cannot issue.'))
  }
  bench.secrets.add(WEB)
  await failed.promise
  // The wait after an error that a retry does not fix: 150 s ± 20 %.
  await bench.clock.waitForDeadline(time => {
    const ms = time - bench.clock.now()
    return ms >= 120_000 && ms <= 180_000
  })
  const samples = await bench.samples()
  assert.equal(samples.get('livery_certificate_requests_total{reason="first",result="failed"}'), 1)
  assert.equal(samples.get('livery_ca_errors_total{code="denied"}'), 1)
  assert.equal(samples.get('livery_ca_request_duration_seconds_count{result="failed"}'), 1)
  assert.equal(samples.get('istio_agent_num_failed_outgoing_requests{request_type="csr"}'), 1)
  assert.equal(samples.get('livery_certificates_earliest_expiration_timestamp_seconds'), undefined)
})

test('requests that wait are counted by rank, and a pause has its reason', async () => {
  await using bench = await Bench.create({ concurrency: 1 })
  const sent = Promise.withResolvers<void>()
  const refuse = Promise.withResolvers<never>()
  bench.ca.answer = () => {
    sent.resolve()
    return refuse.promise
  }
  for (const name of ['a', 'b', 'c']) bench.secrets.add(parseSpiffeId(`spiffe://cluster.local/${name}`))
  await sent.promise
  const busy = await bench.samples()
  assert.deepEqual(
    ['on-demand', 'first', 'renewal', 'retry'].map(rank => busy.get(`livery_ca_requests_queued{rank="${rank}"}`)),
    [0, 2, 0, 0],
  )
  assert.deepEqual([busy.get('livery_ca_requests_in_flight'), busy.get('livery_ca_requests_window')], [1, 1])
  const reasons = ['rate-limited', 'ca-down', 'clock-jumped']
  const pausedBy = (samples: ReadonlyMap<string, number>) =>
    reasons.filter(reason => samples.get(`livery_ca_paused{reason="${reason}"}`) === 1)
  assert.deepEqual(pausedBy(busy), [])
  const refused = Promise.withResolvers<void>()
  bench.secrets.events.subscribe(({ event }) => void (event.kind === 'retry-planned' && refused.resolve()))
  refuse.reject(new CAError('rate-limited', 'No room.', { retryAfterMs: 30_000 }))
  await refused.promise
  const paused = await bench.samples()
  assert.deepEqual(pausedBy(paused), ['rate-limited'])
  const planned = Array.from({ length: 60 }, (_, minute) => paused.get(`livery_renewals_planned{minute="${minute}"}`))
  assert.deepEqual(planned, [1, ...Array(59).fill(0)])
})

test('a socket that drains and the one that took its place are one series', async () => {
  await using bench = await Bench.create()
  bench.sockets.push({ path: '/run/a.sock', state: 'closed', connections: 1, streams: 3 })
  const samples = await bench.samples()
  assert.equal(samples.get('livery_sds_connections{socket="/run/a.sock"}'), 3)
  assert.equal(samples.get('livery_sds_streams{socket="/run/a.sock"}'), 8)
  const counted = ['listening', 'waiting', 'closed'].map(state => samples.get(`livery_sds_sockets{state="${state}"}`))
  assert.deepEqual(counted, [1, 0, 1])
  bench.sockets.length = 0
  const later = await bench.samples()
  assert.equal(later.get('livery_sds_connections{socket="/run/a.sock"}'), undefined)
})

test('an identity that is forgotten takes its series along', async () => {
  await using bench = await Bench.create()
  await bench.hold()
  await bench.samples()
  bench.secrets.forget(WEB)
  const series = [...(await bench.samples()).keys()]
  assert.deepEqual(
    series.filter(name => name.includes(WEB)),
    [],
  )
})

test('over a thousand identities, an identity that has nothing yet and does not fail has no separate series', async () => {
  await using bench = await Bench.create()
  const hanging = Promise.withResolvers<never>()
  bench.ca.answer = () => hanging.promise
  for (let index = 0; index < 1_001; index++) bench.secrets.add(parseSpiffeId(`spiffe://cluster.local/sa-${index}`))
  const samples = await bench.samples()
  assert.equal(samples.get('livery_identities{state="initializing"}'), 1_001)
  assert.deepEqual(
    [...samples.keys()].filter(name => /identity=|resource_name=/.test(name)),
    [],
  )
})

test('a renewal that fails is counted by its code, and by what is left, before its certificate ends', async () => {
  await using bench = await Bench.create()
  await bench.hold()
  assert.equal((await bench.samples()).get('livery_identities_failing{code="denied"}'), 0)
  const { renewAt = 0, secret } = bench.secrets.entry(WEB) ?? assert.fail()
  const failed = Promise.withResolvers<void>()
  bench.secrets.events.subscribe(({ event }) => void (event.kind === 'retry-planned' && failed.resolve()))
  bench.ca.answer = () => Promise.reject(new CAError('denied', 'Cannot issue.'))
  await bench.clock.advance(renewAt - bench.clock.now())
  await failed.promise
  const samples = await bench.samples()
  const left = ((secret?.notAfter ?? 0) - bench.clock.now()) / 1000
  assert.ok(left > 6 * 3_600 && left < 24 * 3_600)
  const bucket = (le: string) => samples.get(`livery_certificate_remaining_seconds_bucket{le="${le}"}`)
  assert.deepEqual([bucket('21600'), bucket('86400'), bucket('+Inf')], [0, 1, 1])
  assert.equal(samples.get('livery_certificate_remaining_seconds_sum'), left)
  assert.equal(samples.get('livery_identities{state="failing"}'), 1)
  assert.equal(samples.get('livery_identities_failing{code="denied"}'), 1)
})

test('events of the SDS server are counted', async () => {
  await using bench = await Bench.create()
  const connection = { id: 1, socket: '/run/a.sock', caller: undefined }
  const stream = { id: 1, method: 'StreamSecrets', connection, node: '', names: 1, openedAt: 0 } as const
  bench.metrics.sds.observe({ kind: 'connection-refused', connection, reason: 'not-allowed' })
  bench.metrics.sds.observe({ kind: 'stream-refused', connection, method: 'DeltaSecrets', bound: 'caller' })
  bench.metrics.sds.observe({ kind: 'stream-report', stream, report: { kind: 'refused-unnamed' }, peer: 'x' })
  const acked = { kind: 'acked', name: 'n', ledgerName: 'n', version: 'v', lagMs: 300 } as const
  bench.metrics.sds.observe({ kind: 'stream-report', stream, report: acked, peer: 'x' })
  bench.metrics.sds.observe({ kind: 'caller-slowed', socket: '/run/a.sock', caller: 'uid 7', streams: 3 })
  for (const event of EVERYTHING) bench.metrics.record('n', { time: 0, event })
  const samples = await bench.samples()
  const found = [
    'livery_sds_refused_connections_total{socket="/run/a.sock",reason="not-allowed"}',
    'livery_sds_refused_streams_total{reason="caller"}',
    'livery_sds_slowed_callers_total{socket="/run/a.sock"}',
    'livery_sds_refused_names_total',
    'livery_sds_pushes_total',
    'livery_sds_acks_total',
    'livery_sds_ack_lag_seconds_bucket{le="0.1"}',
    'livery_sds_ack_lag_seconds_bucket{le="0.5"}',
    'livery_sds_nacks_total',
    'livery_sds_connections{socket="/run/a.sock"}',
    'livery_sds_streams{socket="/run/a.sock"}',
  ].map(name => samples.get(name))
  assert.deepEqual(found, [1, 1, 1, 2, 1, 1, 0, 1, 1, 2, 5])
})

test('dropped log lines are counted once each', async () => {
  await using bench = await Bench.create()
  bench.dropped = 3
  assert.equal((await bench.samples()).get('livery_log_lines_dropped_total'), 3)
  assert.equal((await bench.samples()).get('livery_log_lines_dropped_total'), 3)
  bench.dropped = 5
  assert.equal((await bench.samples()).get('livery_log_lines_dropped_total'), 5)
})

test('certificates that clients would refuse are counted, withheld and served', async () => {
  await using bench = await Bench.create()
  const event = { kind: 'preflight-failed', reason: 'certificate signature failure' } as const
  for (const isServed of [true, false, false]) bench.metrics.record(WEB, { time: 0, event: { ...event, isServed } })
  const text = await bench.metrics.text()
  assert.match(text, /^livery_preflight_failures_total\{served="true"\} 1$/m)
  assert.match(text, /^livery_preflight_failures_total\{served="false"\} 2$/m)
})

test('failures of the store are counted', async () => {
  await using bench = await Bench.create()
  bench.secrets.events.emit({ name: WEB, time: 0, event: { kind: 'not-stored', reason: 'ENOSPC' } })
  const text = await bench.metrics.text()
  assert.match(text, /^livery_store_failures_total 1$/m)
  assert.match(text, /^livery_store_unwritten 4$/m)
})

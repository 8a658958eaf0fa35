/** What each window on the agent says at one moment: readiness, doctor, certs --failing, page, log, gauges. A row for each contradiction that there was. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { SecretManager } from '@livery/core'
import { CAError, type CAErrorCode, parseSpiffeId, type SpiffeId } from '@livery/core/plugin'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import { descriptorShortage } from '@livery/sds-server'
import { DEFAULT_LIMITS } from '@livery/sds-server/defaults'
import { temporaryFolder } from '@livery/test-support'
import { AdminServer } from '../src/admin/admin-server.ts'
import type { AdminSource } from '../src/admin/admin-source.ts'
import { loadConfig } from '../src/config/load.ts'
import type { Problem } from '../src/diagnosis/problem.ts'
import { describeFindings } from '../src/doctor/doctor.ts'
import { openFilesFinding } from '../src/doctor/limit-checks.ts'
import { agentFindings, findAgent } from '../src/doctor/running-agent.ts'
import { EventLog } from '../src/observe/event-log.ts'
import { headline } from '../src/observe/headline.ts'
import { IdentityMetrics } from '../src/observe/identity-metrics.ts'
import { Metrics } from '../src/observe/metrics.ts'
import { pageRoutes } from '../src/page/page-answers.ts'
import type { PageState } from '../src/page/state.ts'
import type { HostPort } from '../src/schema/values.ts'
import { ask } from './admin-socket.ts'
import { adminSource } from './admin-source.ts'
import { type Line, memoryLog } from './memory-log.ts'
import { runInProcess } from './run-in-process.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND

/** Six of them: more than a person wants to read the same of. */
const NAMES = ['a', 'b', 'c', 'd', 'e', 'f'].map(name => parseSpiffeId(`spiffe://cluster.local/${name}`))

class Bench implements AsyncDisposable {
  readonly clock: FakeClock
  readonly ca: TestCA
  readonly secrets: SecretManager
  readonly #server: AdminServer<HostPort>
  readonly #log: Line[]
  readonly #parts: AsyncDisposableStack

  private constructor(
    parts: AsyncDisposableStack,
    held: { clock: FakeClock; ca: TestCA; secrets: SecretManager; server: AdminServer<HostPort>; log: Line[] },
  ) {
    this.#parts = parts
    this.clock = held.clock
    this.ca = held.ca
    this.secrets = held.secrets
    this.#server = held.server
    this.#log = held.log
  }

  static async start(ttlSeconds: number): Promise<Bench> {
    await using parts = new AsyncDisposableStack()
    const clock = new FakeClock()
    const ca = await TestCA.create(clock)
    const keyGenerator = new TestKeyGenerator()
    const options = { ca, clock, keyGenerator, ttlSeconds, trustDomain: 'cluster.local', random: () => 0 }
    const secrets = parts.use(new SecretManager(options))
    const metrics = parts.use(new Metrics())
    const log: Line[] = []
    const lines = parts.use(new EventLog(memoryLog('info', log), clock))
    secrets.events.subscribe(report => {
      metrics.record(report.name, report)
      lines.write(report.event, report.name)
    })
    const identities = new IdentityMetrics(secrets, clock, 'citadel')
    metrics.add(identities.rows(), turns => identities.look(turns))
    const source: AdminSource = { ...adminSource({ secrets, clock, keyGenerator }), metrics }
    const address = { host: '127.0.0.1', port: 0 }
    const server = parts.use(
      await AdminServer.listen({
        routes: 'admin',
        address,
        source,
        makeRoutes: pageRoutes,
        onError: error => assert.fail(String(error)),
      }),
    )
    return new Bench(parts.move(), { clock, ca, secrets, server, log })
  }

  /** Adds these identities, and waits until the CA has answered for each. */
  async add(...names: readonly SpiffeId[]): Promise<void> {
    for (const name of names) this.secrets.add(name)
    await this.until(() =>
      names.every(name => {
        const { secret, lastFailure } = this.secrets.entry(name) ?? {}
        return secret !== undefined || lastFailure !== undefined
      }),
    )
  }

  refuse(code: CAErrorCode, text: string, local = false): void {
    this.ca.answer = ({ identity }) => Promise.reject(new CAError(code, `${text} (${identity})`, { local }))
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await new Promise(setImmediate)
  }

  async advanceUntil(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      await this.clock.advance(SECOND)
      // A signature takes real time: half a minute of the clock must not pass meanwhile.
      await this.until(() => this.secrets.schedule().inFlight === 0)
    }
  }

  async windows(): Promise<Windows> {
    const { host, port } = this.#server.address
    const admin = `${host}:${port}`
    const probe = async (path: string) => await ask(this.#server, path)
    const [ready, strict] = [await probe('/healthz/ready'), await probe('/healthz/ready?strict')]
    const agent = await findAgent({ admin, environment: {}, workingDirectory: '/', terminal: false })
    assert.ok('problems' in agent, JSON.stringify(agent))
    const certs = await runInProcess(['certs', '--failing', '--json', '--admin', admin], '/')
    const failing: readonly { readonly identity: string; readonly reason: string }[] = JSON.parse(certs.stdout)
    const state: PageState = JSON.parse((await probe('/page/state')).body)
    const { problems } = state.overview
    assert.deepEqual([state.overview.ready, state.overview.strictReady], [ready.status === 200, strict.status === 200])
    return {
      readiness: [ready.status, strict.status],
      explain: (await probe('/explain?name=spiffe://cluster.local')).body,
      reasons: strict.body,
      doctor: describeFindings(agentFindings(agent)),
      certs: failing,
      page: problems.map(problem => headline(problem, this.clock.now())),
      severities: problems.map(({ severity }) => severity),
      bars: state.identities.flatMap(({ severity = [] }) => severity),
      pageReasons: problems.map(({ reason }) => reason).join('\n'),
      commands: problems.flatMap(({ commands }) => commands),
      log: this.#log.map(line => `${line['event']}: ${line['msg']}`).join('\n'),
      gauges: gaugesIn((await probe('/metrics')).body),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync()
  }
}

interface Windows {
  /** Status of the default and of the strict question. */
  readonly readiness: readonly [number, number]
  readonly reasons: string
  /** The answer of `/explain` for the trust bundle. */
  readonly explain: string
  readonly doctor: string
  readonly certs: readonly { readonly identity: string; readonly reason: string }[]
  readonly page: readonly string[]
  readonly severities: readonly Severity[]
  /** The colours of the life bars, but for those of identities that are well. */
  readonly bars: readonly Severity[]
  readonly pageReasons: string
  readonly commands: readonly string[]
  readonly log: string
  readonly gauges: Gauges
}

interface Gauges {
  /** `livery_identities_failing` above 0, by code. */
  readonly failing: Readonly<Record<string, number>>
  readonly down: number
  /** Which of the alerts about late renewals would fire. */
  readonly late: readonly Severity[]
}

type Severity = Problem['severity']

function gaugesIn(text: string): Gauges {
  const value = (name: string) => Number(new RegExp(`^${name} (.+)$`, 'm').exec(text)?.[1])
  const failing = [...text.matchAll(/^livery_identities_failing\{code="([^"]+)"\} ([1-9]\d*)$/gm)]
  return {
    failing: Object.fromEntries(failing.map(([, code = '', count]) => [code, Number(count)])),
    down: value('livery_ca_down'),
    late: (['warning', 'critical'] as const).filter(
      severity => value(`livery_certificates_late{severity="${severity}"}`) > 0,
    ),
  }
}

interface Row {
  readonly name: string
  /** Seconds. Default: a day. */
  readonly ttl?: number
  arrange(bench: Bench): Promise<void>
  readonly readiness: readonly [number, number]
  /** What is wrong, by the doctor and the page. */
  readonly problems: readonly RegExp[]
  /** On the page, in the bars of those that it affects, and in the doctor as WRONG or warning. Default: critical. */
  readonly severity?: 'critical' | 'warning'
  /** In readiness, doctor and page, and for each row of `certs --failing`. */
  readonly reason?: RegExp
  /** In doctor and page alone, whole. */
  readonly headline?: RegExp
  readonly certs: number
  readonly log?: RegExp
  readonly notInLog?: RegExp
  readonly gauges: Partial<Gauges>
}

const [A, B, C, D] = NAMES as [SpiffeId, SpiffeId, SpiffeId, SpiffeId]

const ROWS: readonly Row[] = [
  {
    name: 'all is well',
    arrange: bench => bench.add(A, B),
    readiness: [200, 200],
    problems: [],
    certs: 0,
    gauges: {},
  },
  {
    name: 'a refused token in the first minute: not ready without one certificate',
    async arrange(bench) {
      bench.refuse('unauthenticated', 'the token is refused')
      await bench.add(A)
    },
    readiness: [503, 503],
    problems: [/^\S+\/a has no certificate \(unauthenticated\)$/],
    reason: /the token is refused/,
    certs: 1,
    log: /^ca-error: the CA did not issue \(unauthenticated\): the token is refused/m,
    gauges: { failing: { unauthenticated: 1 } },
  },
  {
    name: 'certificates of a minute that the CA back-dates, shortly before their renewal on plan: none is late',
    ttl: 60,
    async arrange(bench) {
      bench.ca.answer = (request, sign) => sign(request, { notBefore: bench.clock.now() - 5 * MINUTE })
      await bench.add(A, B)
      for (let renewals = 0; renewals < 3; renewals++) {
        const issued = bench.secrets.entry(A)?.lastSuccessAt
        await bench.advanceUntil(() => bench.secrets.entry(A)?.lastSuccessAt !== issued)
      }
      const planned = bench.secrets.entry(A)?.renewAt ?? 0
      await bench.advanceUntil(() => bench.clock.now() >= planned - 2 * SECOND)
    },
    readiness: [200, 200],
    problems: [],
    certs: 0,
    gauges: {},
  },
  {
    name: 'the token is mended and then the CA is away: its newest failure is the headline, the token was before the outage',
    async arrange(bench) {
      bench.refuse('unauthenticated', 'the token is refused')
      await bench.add(A, B, C, D)
      await bench.clock.advance(MINUTE)
      bench.refuse('unavailable', 'its TLS certificate is refused')
      await bench.advanceUntil(() => bench.secrets.schedule().downSince !== undefined)
      const old = bench.secrets.entries().filter(({ lastFailure }) => lastFailure?.code === 'unauthenticated')
      assert.ok(old.length > 0, 'some have not been tried since')
    },
    readiness: [503, 503],
    problems: [/^The CA does not answer: 4 identities have no certificate$/],
    reason: /its TLS certificate is refused|the CA does not answer; before the outage it failed \(unauthenticated\)/,
    headline:
      /unavailable: its TLS certificate is refused \(\S+\)\. Before the outage \d identit(?:y|ies) failed \(unauthenticated\): the token is refused/,
    certs: 4,
    log: /^ca-down: the CA does not answer: .* Look at the CA, and at the way to it\./m,
    gauges: { failing: { unavailable: 4 }, down: 1 },
  },
  {
    name: 'six identities with one cause: one problem, though the text of each names its identity',
    async arrange(bench) {
      await bench.add(A)
      bench.refuse('denied', 'not registered')
      await bench.add(...NAMES.slice(1))
    },
    readiness: [200, 503],
    problems: [/^5 identities have no certificate \(denied\)$/],
    reason: /not registered/,
    certs: 5,
    log: /^shared-failure: all who ask fail with denied: .* Allow it at the CA/m,
    gauges: { failing: { denied: 5 } },
  },
  {
    name: 'a file with the root of the CA is missing: a cause on this node, and no word of a CA that is away',
    async arrange(bench) {
      bench.refuse('unavailable', "Cannot read the CA's root", true)
      await bench.add(A, B, C, D)
    },
    readiness: [503, 503],
    problems: [/^4 identities have no certificate \(local unavailable\)$/],
    reason: /Cannot read the CA's root/,
    certs: 4,
    log: /^shared-failure: all who ask fail with local unavailable: .* The cause is on this node/m,
    notInLog: /ca-down|does not answer/,
    gauges: { failing: { unavailable: 4 }, down: 0 },
  },
  {
    name: 'renewals that are refused for a minute: strictly not ready, with the time that is left',
    async arrange(bench) {
      await bench.add(A, B)
      bench.refuse('denied', 'not registered')
      for (const name of [A, B]) bench.secrets.renew(name)
      await bench.advanceUntil(() => bench.secrets.entries().every(({ failingSince }) => failingSince !== undefined))
      await bench.clock.advance(MINUTE)
    },
    readiness: [200, 503],
    problems: [/^2 certificates are not renewed \(denied\): the first certificate ends in 23h5\dm$/],
    severity: 'warning',
    reason: /not registered/,
    certs: 2,
    gauges: { failing: { denied: 2 } },
  },
  {
    name: 'an identity leaves, and is not renewed for its last minutes: nobody misses it',
    ttl: 120,
    async arrange(bench) {
      await bench.add(A, B)
      bench.ca.answer = (request, sign) =>
        request.identity === A ? Promise.reject(new CAError('denied', 'not registered')) : sign(request)
      bench.secrets.remove(A)
      await bench.clock.advance(110 * SECOND)
    },
    readiness: [200, 200],
    problems: [],
    certs: 0,
    gauges: {},
  },
  {
    name: 'the CA is away until less than a tenth of the lives is left: critical, though hours remain',
    async arrange(bench) {
      await bench.add(A, B)
      bench.refuse('unavailable', 'connection refused')
      await bench.clock.advance(22 * 60 * MINUTE)
    },
    readiness: [200, 503],
    problems: [/^The CA does not answer: 2 certificates are not renewed: the first certificate ends in 2h0\dm$/],
    reason: /connection refused/,
    certs: 2,
    gauges: { failing: { unavailable: 2 }, down: 1, late: ['critical'] },
  },
]

for (const { name, ttl = 86_400, arrange, ...row } of ROWS)
  test(name, async () => {
    await using bench = await Bench.start(ttl)
    await arrange(bench)
    const said = await bench.windows()
    assert.deepEqual(said.readiness, row.readiness, said.reasons)
    assert.equal(said.page.length, row.problems.length, said.page.join('\n'))
    for (const [index, problem] of row.problems.entries()) assert.match(said.page[index] ?? '', problem)
    const found = said.doctor.match(/^(?:WRONG|warning) /gm) ?? []
    assert.equal(found.length, row.problems.length, said.doctor)
    for (const what of said.page) assert.ok(said.doctor.includes(what), said.doctor)
    const { reason = /^/ } = row
    for (const text of [said.reasons, said.doctor, said.pageReasons]) assert.match(text, reason)
    for (const text of [said.doctor, said.pageReasons]) assert.match(text, row.headline ?? /^/)
    assert.equal(said.certs.length, row.certs, JSON.stringify(said.certs))
    for (const each of said.certs) {
      assert.match(each.reason, reason)
      assert.ok(said.reasons.includes(`${each.identity}: `), said.reasons)
    }
    const { severity = 'critical' } = row
    for (const severities of [said.severities, said.bars])
      assert.deepEqual(new Set(severities), new Set(row.problems.length === 0 ? [] : [severity]), said.page.join('\n'))
    if (found[0] && severity === 'critical') assert.equal(found[0], 'WRONG ')
    // Without a trust bundle it says why.
    if (said.explain.startsWith('There is no'))
      for (const what of said.page) assert.ok(said.explain.includes(what), said.explain)
    if (row.log) assert.match(said.log, row.log)
    if (row.notInLog) assert.doesNotMatch(said.log, row.notInLog)
    assert.deepEqual(said.gauges, { failing: {}, down: 0, late: [], ...row.gauges })
    // What is offered to run has no argument that only a person knows.
    if (said.commands.includes('livery ca test')) {
      const help = await runInProcess(['ca', 'test', '--help'], '/')
      assert.match(help.stdout, /Usage: livery ca test [^\n]*\[plugin\]/i)
    }
  })

test('open files: the doctor warns of a limit of which the start warns, and of no other', async t => {
  const directory = temporaryFolder(t)
  const yaml = 'ca: { plugin: embedded }\nidentities: [spiffe://cluster.local/a]\nsockets: [{ path: sds.sock }]\n'
  await writeFile(join(directory, 'livery.yaml'), yaml)
  const { config } = await loadConfig({ environment: {}, workingDirectory: directory, terminal: false })
  const { connections } = DEFAULT_LIMITS
  const { wanted = 0 } = descriptorShortage(0, 1, connections) ?? {}
  for (const [limit, state] of [
    [wanted, 'ok'],
    [wanted - 1, 'warning'],
    [600, 'wrong'],
  ] as const) {
    const log: Line[] = []
    using lines = new EventLog(memoryLog('info', log), new FakeClock())
    const shortage = descriptorShortage(limit, 1, connections)
    if (shortage) lines.write({ kind: 'few-descriptors', ...shortage })
    const finding = openFilesFinding(config, { now: 0, problems: [], openFiles: limit })
    assert.deepEqual([finding.state, log.length], [state, state === 'ok' ? 0 : 1], `${limit}`)
  }
})

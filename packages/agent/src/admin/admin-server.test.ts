import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import { chmod, chown, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { SecretManager } from '@livery/core'
import { CAError, parseSpiffeId, scrub } from '@livery/core/plugin'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import { readPeerCredentials } from '@livery/native-keygen'
import { temporaryFolder } from '@livery/test-support'
import { ask } from '../../test/admin-socket.ts'
import { adminSource } from '../../test/admin-source.ts'
import { memoryLog } from '../../test/memory-log.ts'
import { pageRoutes } from '../page/page-answers.ts'
import { formatLogLevels } from '../schema/log-level.ts'
import type { HostPort } from '../schema/values.ts'
import { AdminServer, type AdminServerOptions } from './admin-server.ts'
import type { AdminSource } from './admin-source.ts'
import type { ConfigDump } from './config-dump.ts'
import type { Explanation } from './explain.ts'
import type { TrustStatus } from './routes.ts'

const WEB = parseSpiffeId('spiffe://cluster.local/ns/default/sa/web')
const API = parseSpiffeId('spiffe://cluster.local/ns/default/sa/api')

/** A secret manager with a CA that works, behind real HTTP. */
class Bench implements AsyncDisposable {
  readonly clock = new FakeClock()
  readonly log = memoryLog()
  readonly errors: unknown[] = []
  readonly ca: TestCA
  readonly secrets: SecretManager
  readonly source: AdminSource & {
    phase: AdminSource['phase']
    sockets: AdminSource['sockets']
    tokenFile?: string | undefined
    security?: AdminSource['security']
  }
  readonly #servers = new AsyncDisposableStack()

  private constructor(ca: TestCA, clock: FakeClock) {
    this.ca = ca
    this.clock = clock
    const keyGenerator = new TestKeyGenerator()
    this.secrets = this.#servers.use(
      new SecretManager({ ca, clock, keyGenerator, trustDomain: 'cluster.local', random: () => 0 }),
    )
    this.source = { ...adminSource({ secrets: this.secrets, clock, keyGenerator }), log: this.log }
  }

  static async create(): Promise<Bench> {
    const clock = new FakeClock()
    return new Bench(await TestCA.create(clock), clock)
  }

  /** As the configuration would write it. */
  get level(): string {
    return formatLogLevels(this.log.levels())
  }

  async listen(routes: 'admin' | 'health' = 'admin', host = '127.0.0.1'): Promise<AdminServer<HostPort>> {
    return this.#servers.use(
      await AdminServer.listen({
        routes,
        address: { host, port: 0 },
        source: this.source,
        makeRoutes: pageRoutes,
        onError: error => this.errors.push(error),
      }),
    )
  }

  /** Adds an identity and waits for its certificate. */
  async hold(identity: typeof WEB): Promise<void> {
    this.secrets.add(identity)
    await this.secrets.get({ kind: 'identity', identity }, { signal: AbortSignal.timeout(10_000) })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#servers.disposeAsync()
  }
}

/** The wait after an error that a retry does not fix: 150 s ± 20 %. */
function isLongestRetry(ms: number): boolean {
  return ms >= 120_000 && ms <= 180_000
}

test("the dump has ztunnel's fields, sorted, and never a key", async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  await bench.hold(WEB)
  bench.ca.answer = () => Promise.reject(new CAError('denied', 'Cannot issue: not allowed. Ask the operator.'))
  bench.secrets.add(API)
  await bench.clock.waitForDeadline(time => isLongestRetry(time - bench.clock.now()))
  const { status, headers, body } = await ask(server, '/config_dump')
  assert.equal(status, 200)
  assert.equal(headers['content-type'], 'application/json')
  const dump = JSON.parse(body) as ConfigDump
  assert.equal(dump.version, '1.2.3')
  assert.deepEqual(dump.config, { config: { ttl: '24h' } })
  assert.deepEqual(
    dump.certificates.map(({ identity }) => identity),
    [API, WEB],
  )
  const web = dump.certificates[1]
  assert.equal(web?.state, 'Available')
  const leaf = new X509Certificate(Buffer.from(web?.certChain[0]?.pem ?? '', 'base64'))
  assert.equal(leaf.subjectAltName, `URI:${WEB}`)
  assert.deepEqual(
    { ...web?.certChain[0], pem: '' },
    {
      pem: '',
      serialNumber: BigInt(`0x${leaf.serialNumber}`).toString(),
      validFrom: leaf.validFromDate.toISOString(),
      expirationTime: leaf.validToDate.toISOString(),
    },
  )
  const root = new X509Certificate(Buffer.from(web?.rootCerts[0]?.pem ?? '', 'base64'))
  assert.ok(leaf.verify(root.publicKey))
  assert.ok(Date.parse(web?.renewAt ?? '') > bench.clock.now())
  assert.doesNotMatch(body, /PRIVATE KEY|UFJJVkFURSBLRVk/)
})

test('an identity that the CA fails for is dumped as failing, with the reason', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  const failed = Promise.withResolvers<void>()
  bench.ca.answer = () => {
    failed.resolve()
    return Promise.reject(new CAError('denied', 'Cannot issue: not allowed. Ask the operator.'))
  }
  bench.secrets.add(API)
  await failed.promise
  await bench.clock.waitForDeadline(time => isLongestRetry(time - bench.clock.now()))
  const { certificates } = JSON.parse((await ask(server, '/config_dump')).body) as ConfigDump
  const [{ renewAt: nextTry, ...dumped } = assert.fail()] = certificates
  const since = new Date(bench.clock.now()).toISOString()
  const text = 'Cannot issue: not allowed. Ask the operator.'
  assert.deepEqual(dumped, {
    identity: API,
    state: 'Failing',
    certChain: [],
    rootCerts: [],
    lastFailure: { code: 'denied', text, since, nextTry, remainingSeconds: 0 },
    problem: `the CA fails (denied): ${text}`,
  })
  assert.ok(nextTry !== undefined && isLongestRetry(Date.parse(nextTry) - bench.clock.now()))
})

test('a renewal that fails is seen while its certificate is served: in the dump, in strict readiness, in explain', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  await bench.hold(WEB)
  const { answer } = bench.ca
  bench.ca.answer = (request, sign) =>
    request.identity === WEB
      ? Promise.reject(new CAError('denied', 'Cannot issue: not allowed.'))
      : answer(request, sign)
  const { secret } = bench.secrets.entry(WEB) ?? assert.fail()
  const failing = Promise.withResolvers<void>()
  bench.secrets.events.subscribe(({ event }) => void (event.kind === 'retry-planned' && failing.resolve()))
  await bench.clock.advance((bench.secrets.entry(WEB)?.renewAt ?? 0) - bench.clock.now())
  await failing.promise
  await bench.hold(API)
  const since = bench.clock.now()
  const dumpOf = async (identity: string) =>
    (JSON.parse((await ask(server, '/config_dump')).body) as ConfigDump).certificates.find(
      each => each.identity === identity,
    ) ?? assert.fail()
  const remainingSeconds = Math.floor(((secret?.notAfter ?? 0) - since) / 1000)
  const { state, certChain, renewAt, lastFailure } = await dumpOf(WEB)
  assert.deepEqual([state, certChain.length], ['Failing', 1])
  assert.deepEqual(lastFailure, {
    code: 'denied',
    text: 'Cannot issue: not allowed.',
    since: new Date(since).toISOString(),
    nextTry: renewAt,
    remainingSeconds,
  })
  const { state: other, lastFailure: none } = await dumpOf(API)
  assert.deepEqual([other, none], ['Available', undefined])
  const explained = JSON.parse((await ask(server, `/explain?name=${encodeURIComponent(WEB)}`)).body) as Explanation
  assert.equal(explained.state, 'Failing')

  const young = await ask(server, '/healthz/ready?strict')
  assert.equal(young.status, 200)
  assert.match(
    young.body,
    /^ready\nrenewals that fail, not counted:\n {2}\S+\/web: has failed for 0ms, next try in 2m\d\ds, its certificate/,
  )
  await bench.clock.advance(60_000)
  const strict = await ask(server, '/healthz/ready?strict')
  assert.equal(strict.status, 503)
  assert.match(
    strict.body,
    /^not ready\nrenewals that fail:\n {2}\S+\/web: has failed for 1m00s, next try in 1m\d\ds, its certificate ends in \d+h\d\dm: the CA fails \(denied\): Cannot issue: not allowed\.\n$/,
  )
  const lenient = await ask(server, '/healthz/ready')
  assert.deepEqual(
    [lenient.status, lenient.body.split('\n').slice(0, 2)],
    [200, ['ready', 'renewals that fail, not counted:']],
  )

  bench.ca.answer = answer
  bench.secrets.renew(WEB)
  while (bench.secrets.entry(WEB)?.state !== 'available') await new Promise(setImmediate)
  assert.deepEqual([(await dumpOf(WEB)).state, (await dumpOf(WEB)).lastFailure], ['Available', undefined])
  assert.equal((await ask(server, '/healthz/ready?strict')).body, 'ready\n')
})

test('explain says of a name that was held once that it is forgotten', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  await bench.hold(WEB)
  bench.secrets.forget(WEB)
  const explained = JSON.parse((await ask(server, `/explain?name=${encodeURIComponent(WEB)}`)).body) as Explanation
  assert.deepEqual([explained.state, explained.entries.at(-1)?.event.kind], ['Forgotten', 'withdrawn'])
})

test('readiness says what it waits for, and strict counts what it else forgives', async () => {
  await using bench = await Bench.create()
  await bench.hold(WEB)
  const server = await bench.listen()
  const outage = Promise.withResolvers<never>()
  bench.ca.answer = () => outage.promise
  bench.secrets.add(API)
  const young = await ask(server, '/healthz/ready')
  assert.deepEqual(
    [young.status, young.body],
    [200, `ready\nwithout a certificate, not counted:\n  ${API}: its first certificate is on the way\n`],
  )
  outage.reject(new CAError('unavailable', 'Cannot reach the CA.'))
  await bench.clock.waitForDeadline(time => time < bench.clock.now() + 1_000)
  const lenient = await ask(server, '/healthz/ready')
  assert.deepEqual(
    [lenient.status, lenient.body],
    [200, `ready\nwithout a certificate, not counted:\n  ${API}: the CA fails (unavailable): Cannot reach the CA.\n`],
  )
  const strict = await ask(server, '/healthz/ready?strict')
  assert.deepEqual(
    [strict.status, strict.body],
    [503, `not ready\nwaiting for:\n  ${API}: the CA fails (unavailable): Cannot reach the CA.\n`],
  )

  bench.source.sockets = () => [{ path: '/run/a.sock', state: 'superseded' }]
  assert.match(
    (await ask(server, '/healthz/ready')).body,
    /^not ready\nwaiting for:\n {2}The socket \/run\/a\.sock is not served \(superseded\): another process took its path\n/,
  )
  bench.source.phase = () => 'starting'
  assert.match(
    (await ask(server, '/healthz/ready')).body,
    /^not ready\nwaiting for:\n {2}The sockets are not bound yet: it is starting\n/,
  )
  bench.source.phase = () => 'draining'
  const draining = await ask(server, '/healthz/ready')
  assert.deepEqual(
    [draining.status, draining.body.split('\n')[2]],
    [503, '  The agent is shutting down: it was told to'],
  )
  assert.equal((await ask(server, '/healthz/live')).status, 200)
})

test('readiness fails once every certificate has expired, unless only the sockets are asked about', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  await bench.hold(WEB)
  bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'Cannot reach the CA.'))
  const { secret } = bench.secrets.entries()[0] ?? assert.fail()
  await bench.clock.advance((secret?.notAfter ?? 0) - bench.clock.now() - 1)
  assert.equal((await ask(server, '/healthz/ready')).status, 200)
  await bench.clock.advance(1)
  const expired = await ask(server, '/healthz/ready')
  assert.equal(expired.status, 503)
  assert.match(expired.body, new RegExp(`waiting for:\n  ${WEB}: the CA fails \\(unavailable\\)`))
  assert.equal((await ask(server, '/healthz/ready?mode=sockets')).status, 200)
  assert.equal((await ask(server, '/healthz/ready?mode=none')).status, 400)
})

test('explain reports the ledger of an identity and of the bundle, as JSON and as text', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  await bench.hold(WEB)
  const found = JSON.parse((await ask(server, `/explain?name=${encodeURIComponent(WEB)}`)).body) as Explanation
  assert.deepEqual([found.name, found.state, found.now], [WEB, 'Available', bench.clock.now()])
  assert.deepEqual(
    found.entries.map(({ event, level }) => [event.kind, level]),
    [
      ['csr-sent', 'debug'],
      ['issued', 'info'],
    ],
  )
  assert.match(found.entries[1]?.text ?? '', /^issued: serial [0-9a-f]+, valid until 2026-/)
  const roots = JSON.parse((await ask(server, '/explain?name=ROOTCA')).body) as Explanation
  assert.deepEqual(
    [roots.name, roots.state, roots.entries[0]?.event.kind],
    ['spiffe://cluster.local', '1 root', 'roots-changed'],
  )
  assert.equal((await ask(server, '/explain')).status, 400)
  assert.equal((await ask(server, '/explain?name=spiffe://x/y')).status, 404)
  assert.match((await ask(server, '/explain?name=default')).body, /a different identity on each socket/)
})

test('explain and a renewal offer the name that was probably meant', async () => {
  for (const asked of ['web', `${WEB}/`, WEB.replace('web', 'wbe')]) {
    // Each search has a server to itself: what several may take together is bounded by the clock.
    await using bench = await Bench.create()
    await bench.hold(WEB)
    const { status, body } = await ask(await bench.listen(), `/explain?name=${encodeURIComponent(asked)}`)
    assert.equal(status, 404)
    assert.ok(body.includes(` Did you mean ${WEB}? livery certs lists`), body)
  }
})

test('explain says of the trust bundle that the CA has given no roots yet', async () => {
  const lastFailure = { at: 2, code: 'unauthenticated', message: 'expired token' }
  const failing = { identity: WEB, hold: 'pinned', state: 'failing', addedAt: 0, failingSince: 1, lastFailure }
  for (const [name, entries, says] of [
    ['ROOTCA', [], /It has reported no error/],
    ['spiffe://cluster.local', [], /It has reported no error/],
    ['ROOTCA', [failing], /web has no certificate \(unauthenticated\): expired token\n$/],
  ] as const) {
    await using bench = await Bench.create()
    Object.assign(bench.source, { bundles: () => [], explain: () => [], entries: () => entries })
    const { status, body } = await ask(await bench.listen(), `/explain?name=${encodeURIComponent(name)}`)
    assert.deepEqual([status, body.split(':')[0]], [404, 'There is no trust bundle of cluster.local yet'])
    assert.match(body, says)
  }
})

test('the log level of all scopes and of one can be read and changed, and nonsense is refused with what there is', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  const put = async (query: string) => {
    const { status, body } = await ask(server, `/logging?${query}`, { method: 'PUT' })
    return [status, body]
  }
  const levels = async () => (await ask(server, '/logging')).body
  assert.match(await levels(), /^admin {7}info\nagent {7}info\nca {10}info\n(?:[a-z]+ +info\n){10}$/)
  assert.deepEqual(await put('level=debug'), [200, 'debug\n'])
  assert.match(await levels(), /^(?:[a-z]+ +debug\n){13}$/)
  assert.deepEqual(await put('scope=sds&level=trace'), [200, 'debug,sds:trace\n'])
  assert.match(await levels(), /\nsds {9}trace\n/)
  assert.deepEqual(await put('level=info,sds:debug,ca:trace'), [200, 'info,ca:trace,sds:debug\n'])
  assert.deepEqual(await put('level=sds:info'), [200, 'info,ca:trace\n'])
  for (const [query, refusal] of [
    ['level=dbug', /^"dbug" is none of trace, debug, info, warn, error, fatal, silent\. Did you mean debug\?\n$/],
    ['scope=sdss&level=debug', /^"sdss:debug" has the scope "sdss", none of admin, .*\. Did you mean sds\?\n$/],
    ['level=info,ca:dbug', /^"info,ca:dbug" has the level "dbug", none of trace/],
    ['scope=sds&level=info,ca:debug', /With scope=SCOPE the level is one level/],
    ['scope=sds', /none of trace/],
    ['', /^"" is none of trace/],
  ] as const) {
    const [status, body] = await put(query)
    assert.equal(status, 400, query)
    assert.match(String(body), refusal)
  }
  assert.equal(bench.level, 'info,ca:trace')
})

test('a level that hides warnings needs the token, from a file that only the operator can read', async t => {
  await using bench = await Bench.create()
  const tokenFile = join(temporaryFolder(t), 'admin.token')
  const events: string[] = []
  const server = await bench.listen()
  bench.source.security = event => void events.push(`${event.kind} ${'to' in event ? event.to : ''}`)
  const put = async (level: string, token?: string) => {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
    return (await ask(server, `/logging?level=${level}`, { method: 'PUT', headers })).status
  }
  const secret = 'a-token-of-the-operator'
  for (const level of ['error', 'fatal', 'silent', 'debug,sds:error', 'sds:silent'])
    assert.equal(await put(level, secret), 403, level)
  bench.source.tokenFile = tokenFile
  assert.equal(await put('silent', secret), 403, 'there is no file')
  await writeFile(tokenFile, `${secret}\n`, { mode: 0o644 })
  assert.equal(await put('silent', secret), 403, 'others can read it')
  await chmod(tokenFile, 0o600)
  const wrongs = [undefined, '', 'x', `${secret}x`, secret.slice(1), secret.replace('a', 'b')]
  for (const wrong of wrongs) assert.equal(await put('silent', wrong), 403)
  if (process.geteuid?.() === 0) {
    await chown(tokenFile, 12_345, 12_345)
    assert.equal(await put('silent', secret), 403, 'it belongs to another user')
    await chown(tokenFile, 0, 0)
  }
  assert.deepEqual([bench.level, new Set(events).size], ['info', 5])
  assert.equal(await put('silent', secret), 200)
  assert.equal(bench.level, 'silent')
  assert.equal(events.at(-1), 'log-level-changed silent')
  await writeFile(tokenFile, 'short')
  assert.equal(await put('error', 'short'), 403)
  for (const open of ['warn', 'debug', 'trace', 'info']) assert.equal(await put(open), 200, open)
})

test('an identity is renewed by hand with the token only, and an unknown name is refused', async t => {
  await using bench = await Bench.create()
  const directory = temporaryFolder(t)
  const events: string[] = []
  bench.source.security = ({ kind }) => void events.push(kind)
  const server = await bench.listen()
  await bench.hold(WEB)
  const before = bench.ca.requests.length
  await bench.clock.advance(2_000)
  const put = (name: string, token?: string) => {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
    return ask(server, `/renew?name=${encodeURIComponent(name)}`, { method: 'PUT', headers })
  }
  const refused = await put(WEB)
  assert.equal(refused.status, 403)
  assert.match(
    refused.body,
    /^Not renewed\. Only the operator may do this, because a renewal costs the CA a request\. .* over TCP only a token shows who asks, and admin\.tokenFile is not set\. /,
  )
  assert.match(
    refused.body,
    /Make admin\.address a UNIX socket and ask as root or the agent's user, or set admin\.tokenFile/,
  )
  assert.equal(scrub(refused.body.trim()), refused.body.trim(), 'the command line shows it whole')
  bench.source.tokenFile = join(directory, 'admin.token')
  await writeFile(bench.source.tokenFile, 'a-token-of-the-operator', { mode: 0o600 })
  assert.equal((await put(WEB, 'another-token-of-nobody')).status, 403)
  assert.equal(bench.ca.requests.length, before)
  assert.equal((await put(API, 'a-token-of-the-operator')).status, 404)
  assert.equal((await put(WEB, 'a-token-of-the-operator')).status, 202)
  assert.equal(bench.ca.requests.length, before + 1)
  assert.deepEqual(events, ['renewal-refused', 'renewal-refused', 'renewal-requested'])
})

test('root rotations are shown to all; only the operator holds, resumes and drops a root', async t => {
  await using bench = await Bench.create()
  const directory = temporaryFolder(t)
  const events: string[] = []
  bench.source.security = ({ kind }) => void events.push(kind)
  const server = await bench.listen()
  await bench.hold(WEB)
  const status = async (): Promise<TrustStatus> => JSON.parse((await ask(server, '/trust')).body)
  const [domain] = (await status()).trustDomains
  const fingerprint = domain?.roots[0]?.fingerprint ?? ''
  assert.deepEqual([domain?.trustDomain, domain?.phase, domain?.roots[0]?.leaves], ['cluster.local', 'steady', 1])
  const put = (action: string, token?: string, root = fingerprint) => {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
    return ask(server, `/trust?action=${action}&root=${root}`, { method: 'PUT', headers })
  }
  const refused = await put('hold')
  assert.equal(refused.status, 403)
  assert.match(
    refused.body,
    /^Not done\. Only the operator may do this, because to hold a root changes who is trusted\./,
  )
  bench.source.tokenFile = join(directory, 'admin.token')
  await writeFile(bench.source.tokenFile, 'a-token-of-the-operator', { mode: 0o600 })
  assert.equal((await put('hold', 'another-token-of-nobody')).status, 403)
  assert.equal((await status()).trustDomains[0]?.roots[0]?.phase, 'trusted')
  const token = 'a-token-of-the-operator'
  assert.equal((await put('hold', token)).status, 200)
  assert.equal((await status()).trustDomains[0]?.roots[0]?.phase, 'held')
  assert.equal((await put('resume', token)).status, 200)
  assert.equal((await put('forget', token)).status, 400)
  const last = await put('drop', token)
  assert.equal(last.status, 409)
  assert.match(last.body, /lists it, so that it would come back/)
  assert.equal((await put('drop', token, 'ffffffff')).status, 409)
  assert.deepEqual(events, ['root-change-refused', 'root-change-refused', 'root-change', 'root-change'])
})

test('only the methods of a route are taken', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  for (const [method, path] of [
    ['POST', '/logging?level=debug'],
    ['PUT', '/metrics'],
    ['DELETE', '/config_dump'],
    ['OPTIONS', '/logging'],
  ] as const) {
    assert.equal((await ask(server, path, { method })).status, 405, `${method} ${path}`)
  }
  assert.equal(bench.level, 'info')
  const head = await ask(server, '/metrics', { method: 'HEAD' })
  assert.deepEqual([head.status, head.body, head.headers['content-length']], [200, '', '5'])
  const missing = await ask(server, '/none')
  assert.deepEqual([missing.status, missing.body], [404, 'Nothing is at "/none". See / for what there is.\n'])
  for (const path of ['/ready', '/readyz', '/healthz', '/health'])
    assert.match(
      (await ask(server, path)).body,
      /^Nothing is at \S+\. \/healthz\/ready says whether the agent serves\. See \//,
    )
  assert.match((await ask(server, '/')).body, /^livery 1\.2\.3\n\n.*\/config_dump/s)
})

test('a request by another name is refused: a page in a browser cannot rebind its own name to this port', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  for (const host of [
    'evil.example',
    'evil.example:15100',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    '10.0.0.1',
  ]) {
    assert.equal((await ask(server, '/config_dump', { headers: { host } })).status, 403, host)
  }
  for (const host of ['localhost', 'LOCALHOST:1', '127.0.0.1:15100', '[::1]:15100']) {
    assert.equal((await ask(server, '/config_dump', { headers: { host } })).status, 200, host)
  }
  const { headers } = await ask(server, '/config_dump', { headers: { origin: 'http://localhost' } })
  assert.equal(headers['access-control-allow-origin'], undefined)
})

test('an endpoint on all addresses is reached by any address, not by any name', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen('admin', '0.0.0.0')
  assert.equal((await ask(server, '/', { headers: { host: '192.0.2.1:15100' } })).status, 200)
  assert.equal((await ask(server, '/', { headers: { host: 'evil.example' } })).status, 403)
})

test('the health listener has probes and metrics and nothing else, for any caller', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen('health')
  for (const path of ['/healthz/live', '/healthz/ready', '/metrics']) {
    assert.equal((await ask(server, path, { headers: { host: 'node-1.example:15121' } })).status, 200, path)
  }
  for (const path of ['/config_dump', '/explain?name=ROOTCA', '/logging'])
    assert.equal((await ask(server, path)).status, 404, path)
})

test('bodies are not read', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  const big = await ask(server, '/logging?level=debug', { method: 'PUT', body: 'x'.repeat(2_000) })
  assert.equal(big.status, 413)
  const chunked = await ask(server, '/logging?level=debug', {
    method: 'PUT',
    body: 'x',
    headers: { 'transfer-encoding': 'chunked' },
  })
  assert.equal(chunked.status, 413)
  assert.equal(bench.level, 'info')
})

test('bytes that are not HTTP, a missing Host and headers without end are answered 4xx and cut', async () => {
  await using bench = await Bench.create()
  const { address } = await bench.listen()
  for (const bytes of [
    '\0\0\0\r\n\r\n',
    'GET /config_dump HTTP/1.0\r\n\r\n',
    `GET / HTTP/1.1\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`,
  ]) {
    const socket = connect(address)
    socket.write(bytes)
    let answer = ''
    for await (const part of socket) answer += part
    assert.match(answer, /^HTTP\/1\.1 4/)
  }
})

test('a fault while answering is reported here and hidden from the client', async () => {
  await using bench = await Bench.create()
  const server = await bench.listen()
  bench.source.sockets = () => {
    throw new Error('inner detail')
  }
  const { status, body } = await ask(server, '/healthz/ready')
  assert.equal(status, 500)
  assert.doesNotMatch(body, /inner detail/)
  assert.deepEqual(bench.errors.map(String), ['Error: inner detail'])
})

test('the error for a port in use names the setting to change', async () => {
  await using bench = await Bench.create()
  const { address } = await bench.listen()
  const again = AdminServer.listen({ routes: 'admin', address, source: bench.source, onError: () => {} })
  await assert.rejects(
    again,
    /Cannot listen on 127\.0\.0\.1:\d+ \(admin\.address\): another process, perhaps another livery, has this port\. "ss -ltnp" or "lsof -i :\d+" names it\. Stop it, or change admin\.address\./,
  )
})

const ROUTES = ['/', '/healthz/live', '/healthz/ready', '/metrics', '/config_dump', '/explain?name=ROOTCA', '/logging']

test('a cross-site request from a browser is refused on every route', async () => {
  await using bench = await Bench.create()
  await bench.hold(WEB)
  for (const routes of ['admin', 'health'] as const) {
    const server = await bench.listen(routes)
    const own = `http://127.0.0.1:${server.address.port}`
    const foreign: Record<string, string>[] = [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'cross-site, none' },
      { origin: 'http://evil.example' },
      { origin: 'null' },
      // Another program's page on this machine.
      { origin: 'http://127.0.0.1:8080' },
      { origin: own.replace('http', 'https') },
    ]
    for (const headers of foreign) {
      for (const path of ROUTES) {
        const { status, body } = await ask(server, path, { headers })
        assert.deepEqual([status, /web pages/.test(body)], [403, true], `${path} ${JSON.stringify(headers)}`)
      }
    }
    for (const site of ['same-origin', 'none']) {
      assert.equal((await ask(server, '/metrics', { headers: { 'sec-fetch-site': site, origin: own } })).status, 200)
    }
  }
  const server = await bench.listen()
  const headers = { 'sec-fetch-site': 'cross-site' }
  assert.equal((await ask(server, '/logging?level=warn', { method: 'PUT', headers })).status, 403)
  assert.equal(bench.level, 'info')
})

test('a second Host, a hundred and one headers, and a whole URL are refused; what cannot be decoded is just unknown', async () => {
  await using bench = await Bench.create()
  const { address } = await bench.listen()
  const many = Array.from({ length: 101 }, (_, index) => `x${index}: y\r\n`).join('')
  for (const [head, status] of [
    ['GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n', 400],
    [`GET / HTTP/1.1\r\nhost: localhost\r\n${many}`, 431],
    ['GET http://evil.example/config_dump HTTP/1.1\r\nhost: localhost\r\n', 400],
    ['GET /config_dump HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n', 400],
    ['GET /%zz%ff HTTP/1.1\r\nhost: localhost\r\n', 404],
    ['GET /explain?name=%zz%ff HTTP/1.1\r\nhost: localhost\r\n', 404],
    [`GET /explain?${'&a=b'.repeat(1_000)} HTTP/1.1\r\nhost: localhost\r\n`, 400],
  ] as const) {
    assert.match(await exchange(address, `${head}\r\n`), new RegExp(`^HTTP/1\\.1 ${status} `), head.slice(0, 60))
  }
  assert.deepEqual(bench.errors, [])
})

/** Sends bytes and reads until the connection ends. */
async function exchange({ host, port }: HostPort, bytes: string): Promise<string> {
  const socket = connect({ host, port })
  socket.write(bytes)
  let answer = ''
  for await (const part of socket) answer += part
  return answer
}

test('on a UNIX socket of mode 0600 its owner may set every level, and the host is still checked', async t => {
  if (!readPeerCredentials) return t.skip('the addon, which reads who connects, is not built')
  await using bench = await Bench.create()
  const path = join(temporaryFolder(t), 'admin.sock')
  const options = { routes: 'admin', address: { path }, source: bench.source, readPeerCredentials } as const
  await using _server = await AdminServer.listen({ ...options, onError: error => bench.errors.push(error) })
  assert.equal(statSync(path).mode & 0o777, 0o600)
  const put = (level: string, host = 'localhost') =>
    new Promise<number | undefined>((resolve, reject) => {
      const target = {
        socketPath: path,
        path: `/logging?level=${level}`,
        method: 'PUT',
        headers: { host },
        agent: false,
      }
      request(target, response => resolve(response.resume().statusCode))
        .on('error', reject)
        .end()
    })
  assert.equal(await put('silent'), 200)
  assert.equal(bench.level, 'silent')
  assert.equal(await put('info', 'evil.example'), 403)
  // Another user, whom the mode lets in.
  const stranger = () => ({ pid: 1, uid: (process.geteuid?.() ?? 0) + 12_345, gid: 1 })
  const open = { ...options, address: { path: `${path}2` }, file: { mode: 0o666 }, readPeerCredentials: stranger }
  await using _open = await AdminServer.listen({ ...open, onError: error => bench.errors.push(error) })
  const refused = await new Promise<number | undefined>(resolve => {
    const target = { socketPath: `${path}2`, path: '/logging?level=error', method: 'PUT', agent: false }
    request(target, response => resolve(response.resume().statusCode)).end()
  })
  assert.equal(refused, 403)
})

test('on a UNIX socket without the addon a refusal names the addon, and another user is to ask as the right one', async t => {
  await using bench = await Bench.create()
  const directory = temporaryFolder(t)
  const bodyAt = async (path: string, readPeerCredentials: AdminServerOptions['readPeerCredentials']) => {
    const onError = (error: unknown) => bench.errors.push(error)
    const options = { routes: 'admin', address: { path }, source: bench.source, readPeerCredentials, onError } as const
    await using _server = await AdminServer.listen(options)
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const target = { socketPath: path, path: '/trust?action=hold&root=00', method: 'PUT', agent: false }
    request({ ...target, host: 'localhost' }, resolve)
      .on('error', reject)
      .end()
    const response = await promise
    assert.equal(response.statusCode, 403)
    return await text(response)
  }
  const without = await bodyAt(join(directory, 'a.sock'), undefined)
  assert.match(without, /callers of the UNIX socket cannot be identified without the native addon/)
  assert.match(without, /Install or build the addon \(npm run native\), or set admin\.tokenFile/)
  const stranger = () => ({ pid: 1, uid: (process.geteuid?.() ?? 0) + 12_345, gid: 1 })
  const other = await bodyAt(join(directory, 'b.sock'), stranger)
  assert.match(other, /: uid \d+ is neither root nor the agent's user\. Ask as root or the agent's user\./)
  for (const body of [without, other]) assert.doesNotMatch(body, /Make admin\.address/)
})

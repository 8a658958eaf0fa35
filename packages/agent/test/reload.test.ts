/** A running agent whose configuration changes: by hand, by rename, by a ConfigMap's swap, by SIGHUP; to the good and to the bad. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { existsSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { mkdir, open, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { readPeerCredentials } from '@livery/native-keygen'
import { TemporaryFolder } from '@livery/test-support'
import type { ConfigDump } from '../src/admin/config-dump.ts'
import { LiveryProcess, livery } from './livery-process.ts'
import { fetchSecrets, openStream } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const DB = 'spiffe://cluster.local/ns/default/sa/db'

const CONFIG = {
  ca: { plugin: 'embedded', directory: 'ca' },
  identities: [{ id: WEB, socket: 'run/web.sock' }, API] as readonly unknown[],
  sockets: [{ path: 'run/sds.sock', allow: ['spiffe://cluster.local/**'] }] as readonly object[],
  admin: { address: '127.0.0.1:0' },
  drain: '100ms',
}

const callers = { skip: readPeerCredentials ? false : 'no addon to distinguish callers' }

/** An agent in its own directory, with its configuration in `livery.yaml` there. */
class Bench implements AsyncDisposable {
  readonly directory: string
  readonly agent: LiveryProcess
  readonly admin: string
  readonly #parts: AsyncDisposableStack

  private constructor(directory: string, agent: LiveryProcess, admin: string, parts: AsyncDisposableStack) {
    this.directory = directory
    this.agent = agent
    this.admin = admin
    this.#parts = parts
  }

  static async start(config: object = CONFIG, prepare?: (directory: string) => Promise<void>): Promise<Bench> {
    await using parts = new AsyncDisposableStack()
    const { path } = parts.use(new TemporaryFolder())
    await (prepare ? prepare(path) : writeFile(join(path, 'livery.yaml'), JSON.stringify(config)))
    const agent = parts.use(new LiveryProcess(['run'], { cwd: path }))
    return new Bench(path, agent, await agent.admin(), parts.move())
  }

  file(name: string): string {
    return join(this.directory, name)
  }

  /** By rename, so that the whole of it is there at once. */
  write(config: object | string): void {
    writeFileSync(this.file('new.yaml'), typeof config === 'string' ? config : JSON.stringify(config))
    renameSync(this.file('new.yaml'), this.file('livery.yaml'))
  }

  /** The log line of the `count`th reload. */
  async reloaded(count = 1): Promise<string> {
    const line = (await this.agent.lines(/"msg":"(?:reloaded: |not reloaded, )/, count))[count - 1] ?? ''
    const { msg }: { readonly msg: string } = JSON.parse(line)
    return msg
  }

  async issued(identity: string): Promise<void> {
    await this.agent.line(new RegExp(`"event":"issued","resource":"${identity}"`))
  }

  async metric(series: string): Promise<number> {
    const text = await (await fetch(`http://${this.admin}/metrics`)).text()
    const line = text.split('\n').find(candidate => candidate.startsWith(`${series} `))
    return Number(line?.slice(series.length + 1))
  }

  async dump(): Promise<ConfigDump & { readonly config: { readonly needsRestart: readonly string[] } }> {
    const dump: unknown = await (await fetch(`http://${this.admin}/config_dump`)).json()
    return dump as Awaited<ReturnType<Bench['dump']>>
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#parts.disposeAsync()
  }
}

function serialOf(certificateChain: string | undefined): string {
  return new X509Certificate(certificateChain ?? '').serialNumber
}

test('an edit adds and removes identities and their sockets, and the others notice nothing', async () => {
  await using bench = await Bench.start()
  using stream = await openStream(bench.file('run/web.sock'), ['default'])
  using shared = await openStream(bench.file('run/sds.sock'), [WEB])
  await bench.issued(API)
  const before = (await bench.dump()).certificates.find(({ identity }) => identity === WEB)
  const pushes = await bench.metric('livery_sds_pushes_total')

  bench.write({
    ...CONFIG,
    identities: [
      CONFIG.identities[0],
      { id: DB, socket: 'run/db.sock' },
      { range: 'spiffe://cluster.local/load/sa-{0..1}' },
    ],
  })
  assert.equal(await bench.reloaded(), 'reloaded: 3 identities added, 1 removed, 1 socket opened')
  const [db] = await fetchSecrets(bench.file('run/db.sock'), ['default'])
  assert.equal(new X509Certificate(db?.certificateChain ?? '').subjectAltName, `URI:${DB}`)
  assert.equal((await fetchSecrets(bench.file('run/sds.sock'), ['spiffe://cluster.local/load/sa-1'])).length, 1)

  const dump = await bench.dump()
  assert.ok(before?.renewAt)
  assert.deepEqual(
    dump.certificates.find(({ identity }) => identity === WEB),
    before,
  )
  assert.deepEqual(dump.config.needsRestart, [])
  assert.match(JSON.stringify(dump.config), /"socket":"[^"]*db\.sock"/)
  assert.equal(await bench.metric('livery_sds_pushes_total'), pushes)
  assert.deepEqual([stream.answers.length, shared.answers.length], [1, 1])
  assert.equal(await bench.metric(`livery_sds_streams{socket="${bench.file('run/web.sock')}"}`), 1)
  assert.equal(
    serialOf((await fetchSecrets(bench.file('run/web.sock'), ['default']))[0]?.certificateChain),
    serialOf(stream.secrets[0]?.certificateChain),
  )
  // Removed, and served for the grace period.
  assert.equal((await fetchSecrets(bench.file('run/sds.sock'), [API])).length, 1)
})

test('a removed identity and its socket end with the grace period, and one that returns before keeps both', async () => {
  await using bench = await Bench.start({ ...CONFIG, removal: { grace: '1h' } })
  using stream = await openStream(bench.file('run/web.sock'), ['default'])
  bench.write({ ...CONFIG, removal: { grace: '1h' }, identities: [API] })
  assert.equal(await bench.reloaded(1), 'reloaded: 1 identity removed')
  const [during] = await fetchSecrets(bench.file('run/web.sock'), ['default'])
  bench.write({ ...CONFIG, removal: { grace: '1h' } })
  assert.equal(await bench.reloaded(2), 'reloaded: 1 identity added')
  const [after] = await fetchSecrets(bench.file('run/web.sock'), ['default'])
  const serials = [stream.secrets[0], during, after].map(secret => serialOf(secret?.certificateChain))
  assert.equal(new Set(serials).size, 1)
  assert.equal(stream.answers.length, 1)
  assert.equal(await bench.metric('livery_certificate_requests_total{reason="first",result="issued"}'), 2)

  await using hasty = await Bench.start({ ...CONFIG, removal: { grace: '0s' } })
  using streamed = await openStream(hasty.file('run/web.sock'), ['default'])
  hasty.write({ ...CONFIG, removal: { grace: '0s' }, identities: [API] })
  await hasty.agent.line(/"event":"withdrawn",.*"reason":"forgotten"/)
  assert.equal(await streamed.ended, 14)
  assert.equal(existsSync(hasty.file('run/web.sock')), false)
  assert.equal((await fetch(`http://${hasty.admin}/healthz/ready?strict`)).status, 200)
})

test('a file that is renamed over the old one is seen, as editors save', async () => {
  await using bench = await Bench.start()
  for (let round = 1; round <= 3; round++) {
    const range = `spiffe://cluster.local/load/sa-{1..${round}}`
    await writeFile(bench.file('new'), JSON.stringify({ ...CONFIG, identities: [...CONFIG.identities, { range }] }))
    await rename(bench.file('new'), bench.file('livery.yaml'))
    assert.equal(await bench.reloaded(round), 'reloaded: 1 identity added')
  }
})

const IN_PLACE =
  /"msg":"[^"]*livery\.yaml has changed in place: it may be half written, and is read when it has stayed the same for 3 s/

for (const way of ['truncated', 'removed', 'removed and seen missing'] as const)
  test(`a file that was ${way} and is written in pieces is read when it is whole, not before`, async () => {
    await using bench = await Bench.start()
    const file = bench.file('livery.yaml')
    if (way !== 'truncated') await rm(file)
    if (way === 'removed and seen missing') assert.match(await bench.reloaded(1), /does not exist/)
    const { identities, ...rest } = CONFIG
    // Each line is a whole configuration, without the identities of the next ones.
    const [first = '', ...lines] = [...identities, DB].map(identity => `- ${JSON.stringify(identity)}\n`)
    const written = await open(file, 'w')
    const keys = Object.entries(rest).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
    await written.write(`${keys.join('')}identities:\n${first}`)
    assert.match(await bench.agent.line(/changed in place|"msg":"reloaded/), IN_PLACE)
    for (const line of lines) await written.write(line)
    await written.close()
    assert.match(await bench.agent.line(/"msg":"reloaded/), /"msg":"reloaded: 1 identity added"/)
    assert.equal((await bench.agent.lines(IN_PLACE, 1)).length, 1, bench.agent.stderr)
  })

test('SIGHUP reads a file that was written in place at once', async () => {
  await using bench = await Bench.start()
  writeFileSync(bench.file('livery.yaml'), JSON.stringify({ ...CONFIG, identities: [...CONFIG.identities, DB] }))
  assert.match(await bench.agent.line(/changed in place|"msg":"reloaded/), IN_PLACE)
  bench.agent.kill('SIGHUP')
  assert.equal(await bench.reloaded(), 'reloaded: 1 identity added')
})

test('a file that is renamed over one that was being written is read at once, alone', async () => {
  await using bench = await Bench.start()
  writeFileSync(bench.file('livery.yaml'), '')
  await bench.agent.line(IN_PLACE)
  bench.write({ ...CONFIG, identities: [...CONFIG.identities, DB] })
  assert.equal(await bench.reloaded(), 'reloaded: 1 identity added')
})

/** Writes as kubelet does: a new directory, then `..data` moved over to it. */
async function swap(directory: string, version: number, config: object): Promise<void> {
  const name = `..v${version}`
  await mkdir(join(directory, name))
  await writeFile(join(directory, name, 'livery.yaml'), JSON.stringify(config))
  const data = join(directory, '..data')
  const old = await readlink(data).catch(() => undefined)
  await symlink(name, join(directory, '..data_tmp'))
  await rename(join(directory, '..data_tmp'), data)
  if (old === undefined) await symlink('..data/livery.yaml', join(directory, 'livery.yaml'))
  else await rm(join(directory, old), { recursive: true })
}

test("every swap of a ConfigMap's ..data is seen, not only the first", async () => {
  await using bench = await Bench.start({}, directory => swap(directory, 0, CONFIG))
  for (let round = 1; round <= 5; round++) {
    const range = `spiffe://cluster.local/load/sa-{1..${round}}`
    await swap(bench.directory, round, { ...CONFIG, identities: [...CONFIG.identities, { range }] })
    assert.equal(await bench.reloaded(round), 'reloaded: 1 identity added')
  }
})

test('SIGHUP reads the configuration again, and says so when nothing is different', async () => {
  await using bench = await Bench.start()
  bench.agent.kill('SIGHUP')
  assert.equal(await bench.reloaded(), 'reloaded: identities and sockets are the same')
  assert.equal(await bench.metric('livery_config_reload_total{result="success"}'), 1)
})

test('a broken file changes nothing: one error line with the text of check-config, and the next good one counts', async () => {
  await using bench = await Bench.start()
  using stream = await openStream(bench.file('run/web.sock'), ['default'])
  bench.write(`${JSON.stringify({ ...CONFIG, identities: [] })}\nttl: 5\n`)
  const refused = await bench.reloaded(1)
  const check = await livery(['check-config'], { cwd: bench.directory })
  assert.equal(check.code, 78)
  assert.equal(
    `livery: ${refused.replace('not reloaded, the previous configuration stays in force: ', '')}\n`,
    check.stderr,
  )
  assert.equal(await bench.metric('livery_config_reload_total{result="failure"}'), 1)
  assert.equal((await bench.dump()).certificates.length, 2)
  assert.equal((await fetch(`http://${bench.admin}/healthz/ready`)).status, 200)

  await rm(bench.file('livery.yaml'))
  assert.match(await bench.reloaded(2), /livery\.yaml: the file does not exist/)
  bench.write({ ...CONFIG, identities: [...CONFIG.identities, DB] })
  assert.equal(await bench.reloaded(3), 'reloaded: 1 identity added')
  assert.equal(stream.answers.length, 1)
  assert.equal((bench.agent.stderr.match(/"level":"error"/g) ?? []).length, 2)
})

test('settings that need a restart are named in one warning and stay unchanged; the log level changes at once', async () => {
  await using bench = await Bench.start()
  const sockets = [{ ...CONFIG.sockets[0], mode: '0600', limits: { names: 5 } }]
  const changed = { ...CONFIG, ttl: '1h', rotation: { ratio: 0.6 }, log: { level: 'debug' } }
  bench.write({ ...changed, sockets, identities: [...CONFIG.identities, DB] })
  assert.equal(await bench.reloaded(), 'reloaded: 1 identity added')
  const keys = ['ttl', 'rotation.ratio', 'sockets[0].mode', 'sockets[0].limits.names']
  const warning: { readonly msg: string } = JSON.parse(await bench.agent.line(/needs a restart/))
  assert.equal(warning.msg, `needs a restart to take effect: ${keys.join(', ')}`)
  assert.deepEqual((await bench.dump()).config.needsRestart, keys)
  assert.match(await (await fetch(`http://${bench.admin}/logging`)).text(), /^(?:[a-z]+ +debug\n)+$/)
  assert.equal((await fetchSecrets(bench.file('run/sds.sock'), [API])).length, 1)

  bench.write({ ...CONFIG, identities: [...CONFIG.identities, DB] })
  await bench.reloaded(2)
  assert.deepEqual((await bench.dump()).config.needsRestart, [])
})

test('a name that is allowed from now on is pushed, one that is not any more cuts off who has it, and others notice nothing', async () => {
  const withAllow = (...allow: string[]) => ({ ...CONFIG, sockets: [{ path: 'run/sds.sock', allow }] })
  await using bench = await Bench.start(withAllow(WEB))
  const socket = bench.file('run/sds.sock')
  const { ino } = statSync(socket)
  await bench.issued(API)
  using web = await openStream(socket, [WEB])
  using api = await openStream(socket, [API])
  assert.deepEqual(api.secrets, [])

  bench.write(withAllow(WEB, API))
  assert.equal(await bench.reloaded(1), 'reloaded: 1 socket changed')
  await api.answered(2)
  assert.deepEqual(
    api.answers[1]?.map(({ name }) => name),
    [API],
  )
  const dump = await bench.dump()
  assert.deepEqual(dump.config.needsRestart, [])
  assert.match(JSON.stringify(dump.config), /"allow":\["[^"]*\/web","[^"]*\/api"\]/)

  bench.write(withAllow(API))
  assert.equal(await bench.reloaded(2), 'reloaded: 1 socket changed')
  assert.equal(await web.ended, 14)
  assert.deepEqual(await fetchSecrets(socket, [WEB]), [])
  assert.equal((await fetchSecrets(socket, [API])).length, 1)
  assert.equal(api.answers.length, 2)
  assert.equal(await bench.metric(`livery_sds_streams{socket="${socket}"}`), 1)
  assert.equal(statSync(socket).ino, ino)

  bench.agent.kill('SIGHUP')
  assert.equal(await bench.reloaded(3), 'reloaded: identities and sockets are the same')
})

test(
  'a caller that no rule lets in any more is cut off, and the socket of another identity goes on',
  callers,
  async () => {
    await using bench = await Bench.start()
    using own = await openStream(bench.file('run/web.sock'), ['default'])
    using shared = await openStream(bench.file('run/sds.sock'), [API])
    const uid = process.getuid?.() ?? 0
    const withCaller = (caller: object) => ({ ...CONFIG, sockets: [{ ...CONFIG.sockets[0], callers: [caller] }] })
    bench.write(withCaller({ uid }))
    assert.equal(await bench.reloaded(1), 'reloaded: 1 socket changed')
    assert.equal((await fetchSecrets(bench.file('run/sds.sock'), [API])).length, 1)
    bench.write(withCaller({ uid: uid + 1 }))
    assert.equal(await bench.reloaded(2), 'reloaded: 1 socket changed')
    assert.equal(await shared.ended, 14)
    await assert.rejects(fetchSecrets(bench.file('run/sds.sock'), [API]))
    assert.deepEqual([shared.answers.length, own.answers.length], [1, 1])
  },
)

test('a socket that everybody may open from now on is warned of as at the start, once', callers, async () => {
  const shared = { ...CONFIG.sockets[0], mode: '0666', callers: [{ uid: process.getuid?.() ?? 0 }] }
  await using bench = await Bench.start({ ...CONFIG, sockets: [shared] })
  const { callers: _, ...open } = shared
  const sockets = [open, { ...open, path: 'run/two.sock' }, { ...shared, path: 'run/three.sock' }]
  bench.write({ ...CONFIG, sockets })
  assert.equal(await bench.reloaded(1), 'reloaded: 2 sockets opened, 1 changed')
  bench.write({ ...CONFIG, sockets, identities: [...CONFIG.identities, DB] })
  assert.equal(await bench.reloaded(2), 'reloaded: 1 identity added')
  const warned = [
    ...bench.agent.stderr.matchAll(/socket [^ ]*(run\/\w+\.sock): every user of this machine may open it/g),
  ]
  assert.deepEqual(warned.map(match => match[1]).toSorted(), ['run/sds.sock', 'run/two.sock'])
})

test('another trust domain is refused as a whole', async () => {
  await using bench = await Bench.start()
  bench.write({ ...CONFIG, trustDomain: 'example.org', identities: ['spiffe://example.org/web'] })
  assert.match(
    await bench.reloaded(),
    /\n {2}livery\.yaml:1: trustDomain: "example\.org" cannot replace cluster\.local while the agent runs\. Restart it\.$/,
  )
  assert.equal((await bench.dump()).certificates.length, 2)
})

test('shared sockets are added and removed; streams of removed ones are drained, the others continue', async () => {
  await using bench = await Bench.start()
  using stays = await openStream(bench.file('run/web.sock'), ['default'])
  using goes = await openStream(bench.file('run/sds.sock'), [API])
  bench.write({ ...CONFIG, sockets: [{ path: 'run/other.sock', allow: ['spiffe://cluster.local/**'] }] })
  assert.equal(await bench.reloaded(), 'reloaded: 1 socket opened, 1 closed')
  assert.equal(await goes.ended, 14)
  assert.equal((await fetchSecrets(bench.file('run/other.sock'), [API])).length, 1)
  assert.equal(existsSync(bench.file('run/sds.sock')), false)
  assert.equal((await fetch(`http://${bench.admin}/healthz/ready?strict`)).status, 200)
  assert.equal(stays.answers.length, 1)
})

for (const [what, path] of [
  ['that the new rules do not allow', 'run/sds.sock'],
  ['on a socket that is removed in the same reload', 'run/other.sock'],
] as const) {
  test(`a new identity is never sent to a caller ${what}`, async () => {
    await using bench = await Bench.start()
    using stream = await openStream(bench.file('run/sds.sock'), [WEB, DB])
    assert.equal(stream.answers.length, 1)
    // Opening many sockets takes as long as issuing a certificate.
    const range = Array.from({ length: 30 }, (_, index) => ({ id: `${API}-${index}`, socket: `run/${index}.sock` }))
    const identities = [...CONFIG.identities, { id: DB, socket: 'run/db.sock' }, ...range]
    bench.write({ ...CONFIG, identities, sockets: [{ path, allow: [WEB] }] })
    assert.match(await bench.reloaded(), /^reloaded: 31 identities added/)
    assert.equal((await fetchSecrets(bench.file('run/db.sock'), ['default'])).length, 1)
    assert.equal(await stream.ended, 14)
    assert.deepEqual(new Set(stream.answers.flat().map(({ name }) => name)), new Set([WEB]))
  })
}

test('a socket path that another identity takes over serves that one', async () => {
  await using bench = await Bench.start()
  using before = await openStream(bench.file('run/web.sock'), ['default'])
  bench.write({ ...CONFIG, identities: [WEB, API, { id: DB, socket: 'run/web.sock' }] })
  assert.equal(await bench.reloaded(), 'reloaded: 1 identity added, 1 socket opened, 1 closed')
  assert.equal(await before.ended, 14)
  const [secret] = await fetchSecrets(bench.file('run/web.sock'), ['default'])
  assert.equal(new X509Certificate(secret?.certificateChain ?? '').subjectAltName, `URI:${DB}`)
})

test('a new socket that cannot be opened changes nothing', async () => {
  const config = { ...CONFIG, removal: { grace: '0s' } }
  await using bench = await Bench.start(config)
  using stream = await openStream(bench.file('run/web.sock'), ['default'])
  bench.write({
    ...config,
    identities: [API, { id: DB, socket: 'run/db.sock' }],
    sockets: [...CONFIG.sockets, { path: 'livery.yaml/x.sock' }],
  })
  assert.match(
    await bench.reloaded(),
    /^not reloaded, the previous configuration stays in force: Cannot listen on .*livery\.yaml\/x\.sock/,
  )
  assert.equal(existsSync(bench.file('run/db.sock')), false)
  const [secret] = await fetchSecrets(bench.file('run/web.sock'), ['default'])
  assert.equal(serialOf(secret?.certificateChain), serialOf(stream.secrets[0]?.certificateChain))
  assert.doesNotMatch(bench.agent.stderr, /"event":"withdrawn"/)
  bench.write({ ...config, identities: [...CONFIG.identities, { id: DB, socket: 'run/db.sock' }] })
  assert.equal(await bench.reloaded(2), 'reloaded: 1 identity added, 1 socket opened')
  assert.equal(stream.answers.length, 1)
})

test('a flood of names on demand stays within maxIdentities, and who holds a stream is not evicted', async () => {
  const limits = { perCaller: { identities: 10 } }
  const sockets = [{ path: 'run/sds.sock', allow: ['spiffe://cluster.local/**'], onDemand: true, limits }]
  await using bench = await Bench.start({ ...CONFIG, sockets, maxIdentities: 10 })
  const socket = bench.file('run/sds.sock')
  const stream = await openStream(socket, ['spiffe://cluster.local/kept'])
  for (let round = 0; round < 5; round++) {
    const names = Array.from({ length: 7 }, (_, index) => `spiffe://cluster.local/flood/${round}/${index}`)
    assert.equal((await fetchSecrets(socket, names)).length, 7)
  }
  const { certificates } = await bench.dump()
  assert.equal(certificates.length, 10)
  for (const pinned of [WEB, API]) assert.ok(certificates.some(({ identity }) => identity === pinned))
  assert.ok((await bench.metric('livery_certificates_withdrawn_total{reason="evicted"}')) >= 25)
  assert.equal(stream.answers.length, 1)
  const names = Array.from({ length: 8 }, (_, index) => `spiffe://cluster.local/streamed/${index}`)
  using many = await openStream(socket, names)
  assert.equal(many.answers.length, 1)
  const refused: { readonly resource: string; readonly maxIdentities: number } = JSON.parse(
    await bench.agent.line(/"event":"no-room"/),
  )
  assert.deepEqual([refused.resource, refused.maxIdentities], [names[7], 10])
  // Once there is room, who was turned away gets what it asked for without asking again.
  stream[Symbol.dispose]()
  await bench.issued(refused.resource)
})

/** Certificates of a real manager and a CA that signs, written to real directories and read by another thread. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { SecretManager } from '@livery/core'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import type { ReaderReport } from '../../test/set-reader.ts'
import type { OutputSetting } from '../config/output-schema.ts'
import { Outputs } from './outputs.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const FILES = ['cert-chain.pem', 'key.pem', 'root-cert.pem']
const HOUR = 3_600_000
/** A life that needs no renewal: the clock moves while a test waits for the disk, however busy that is. */
const LONG = 30 * 24 * HOUR

class Bench {
  readonly directory: string
  readonly clock = new FakeClock()
  readonly secrets: SecretManager
  readonly outputs: Outputs
  readonly ca: TestCA
  readonly errors: string[] = []
  readonly #setting: Omit<OutputSetting, 'directory'>

  private constructor(t: TestContext, ca: TestCA, clock: FakeClock, setting: Partial<OutputSetting>, ttl: number) {
    this.directory = join(temporaryFolder(t), 'out')
    this.ca = ca
    this.clock = clock
    this.#setting = { mode: 0o600, bundle: false, ...setting }
    this.secrets = new SecretManager({
      ca,
      clock,
      keyGenerator: new TestKeyGenerator(),
      trustDomain: 'cluster.local',
      ttlSeconds: ttl / 1_000,
      rotation: { settleMs: 0 },
    })
    this.outputs = new Outputs({
      secrets: this.secrets,
      clock,
      logger: {
        info: () => {},
        warn: () => assert.fail('it cannot be watched'),
        error: (_fields: object, message?: string) => void this.errors.push(message ?? ''),
      },
    })
    t.after(async () => {
      this.outputs[Symbol.dispose]()
      await this.secrets[Symbol.asyncDispose]()
    })
  }

  /** `ttl`: of its certificates, milliseconds. */
  static async create(t: TestContext, setting: Partial<OutputSetting> = {}, ttl = LONG): Promise<Bench> {
    const clock = new FakeClock()
    return new Bench(t, await TestCA.create(clock), clock, setting, ttl)
  }

  /** Holds the identity, and writes it. */
  start(): void {
    this.secrets.add(WEB)
    this.follow()
  }

  follow(): void {
    this.outputs.follow([{ id: WEB, output: { directory: this.directory, ...this.#setting } }])
  }

  /** Moves the clock until it holds: slowly, since the disk takes its own time. */
  async until(holds: () => boolean, stepMs = 1): Promise<void> {
    while (!holds()) await this.clock.advance(stepMs)
  }

  /** Resolves when the files are the `count`th set. */
  written(count: number): Promise<void> {
    return this.until(() => this.outputs.counts.written >= count)
  }

  path(name: string): string {
    return join(this.directory, name)
  }

  read(name: string): string {
    return readFileSync(this.path(name), 'utf8')
  }

  served(): { readonly chain: string; readonly key: string } {
    const item = this.secrets.current({ kind: 'identity', identity: WEB })
    assert.ok(item?.kind === 'certificate')
    return {
      chain: item.certificateChain.toString(),
      key: item.privateKey.open(key => Buffer.from(key).toString()),
    }
  }

  /** Resolves when chain and key are the served ones. */
  async upToDate(): Promise<void> {
    await this.until(() => {
      const { chain, key } = this.served()
      return this.isFile('cert-chain.pem', chain) && this.isFile('key.pem', key)
    })
  }

  isFile(name: string, content: string): boolean {
    return existsSync(this.path(name)) && statSync(this.path(name)).isFile() && this.read(name) === content
  }
}

test('chain, key and roots are written with their modes, and again when they are renewed, though nobody streams', async t => {
  const bench = await Bench.create(t)
  bench.start()
  await bench.written(1)
  await bench.upToDate()
  assert.equal(bench.read('root-cert.pem').trim(), bench.ca.roots.join('').trim())
  const modes = FILES.map(name => statSync(bench.path(name)).mode & 0o777)
  assert.deepEqual(modes, [0o644, 0o600, 0o644])
  const first = bench.read('cert-chain.pem')
  await bench.clock.advance(2_000)
  assert.ok(bench.secrets.renew(WEB))
  await bench.written(2)
  await bench.upToDate()
  assert.notEqual(bench.read('cert-chain.pem'), first)
  assert.equal(bench.outputs.counts.failures, 0)
})

test('other roots are written with the certificate that is served', async t => {
  const bench = await Bench.create(t)
  bench.start()
  await bench.written(1)
  await bench.ca.addRoot()
  await bench.until(() => bench.read('root-cert.pem').split('BEGIN').length === 3)
  await bench.upToDate()
})

test('a reader in a loop never sees a mixed set, over forty renewals', async t => {
  const bench = await Bench.create(t, { bundle: true }, HOUR)
  bench.start()
  await bench.written(1)
  const reader = new Worker(new URL('../../test/set-reader.ts', import.meta.url), { workerData: bench.directory })
  t.after(() => reader.terminate())
  await once(reader, 'online')
  let seen: string | undefined
  const reports = new EventEmitter()
  reader.on('message', (message: string | ReaderReport) => {
    if (typeof message === 'string') seen = message
    else reports.emit('end', message)
  })
  for (let count = 2; count <= 41; count++) {
    await bench.until(() => bench.outputs.counts.written >= count, 60_000)
    // Half of them follow each other as fast as they can; each of the others is read, or the one behind it.
    if (count % 2 === 0)
      await bench.until(() => seen === new X509Certificate(bench.read('cert-chain.pem')).serialNumber)
  }
  reader.postMessage('end')
  const [report]: readonly ReaderReport[] = await once(reports, 'end')
  assert.deepEqual(report?.faults, [])
  assert.ok(report.serials.length >= 20 && new Set(report.serials).size === report.serials.length)
})

const TAMPERED: Readonly<Record<string, (bench: Bench) => void>> = {
  'a file is removed': bench => rmSync(bench.path('key.pem')),
  'a file is written to': bench => writeFileSync(bench.path('cert-chain.pem'), 'else'),
  'a file is put in the place of a link': bench => {
    writeFileSync(bench.path('new'), 'else')
    renameSync(bench.path('new'), bench.path('root-cert.pem'))
  },
  'a folder is put in the place of a link': bench => {
    rmSync(bench.path('key.pem'))
    mkdirSync(bench.path('key.pem'))
  },
  'the set is removed': bench => rmSync(realpathSync(bench.path('..data')), { recursive: true }),
  'the link to the set is removed': bench => rmSync(bench.path('..data')),
  'only the links of the files are left': bench => {
    rmSync(realpathSync(bench.path('..data')), { recursive: true })
    rmSync(bench.path('..data'))
  },
  'only the link to the set is left': bench => {
    rmSync(realpathSync(bench.path('..data')), { recursive: true })
    for (const name of FILES) rmSync(bench.path(name))
  },
}
for (const [what, tamper] of Object.entries(TAMPERED))
  test(`the set is written again when ${what}`, async t => {
    const bench = await Bench.create(t)
    bench.start()
    await bench.written(1)
    tamper(bench)
    await bench.until(() => bench.outputs.counts.written > 1 || bench.errors.length > 0, 10)
    assert.deepEqual(bench.errors, [])
    await bench.upToDate()
  })

for (const [what, tamper] of Object.entries(TAMPERED))
  test(`an agent that starts writes the set again when ${what}`, async t => {
    const bench = await Bench.create(t)
    bench.start()
    await bench.written(1)
    bench.outputs.release()
    tamper(bench)
    bench.outputs.reclaim()
    await bench.until(() => bench.outputs.counts.written > 1 || bench.errors.length > 0, 10)
    assert.deepEqual(bench.errors, [])
    await bench.upToDate()
  })

test('a link that another program puts in the place of ours is not replaced, and the log says so', async t => {
  const bench = await Bench.create(t)
  bench.start()
  await bench.written(1)
  symlinkSync('/etc', bench.path('new'))
  renameSync(bench.path('new'), bench.path('..data'))
  await bench.until(() => bench.errors.length > 0, 10)
  assert.match(bench.errors[0] ?? '', /another program has put \.\.data there/)
  assert.equal(readlinkSync(bench.path('..data')), '/etc')
})

test('files of another program are never written over: neither plain ones nor the files of a volume', async t => {
  const plain = await Bench.create(t)
  mkdirSync(plain.directory)
  writeFileSync(plain.path('key.pem'), 'theirs')
  const mounted = await Bench.create(t)
  mkdirSync(mounted.path('..2026'), { recursive: true })
  writeFileSync(mounted.path('..2026/key.pem'), 'theirs')
  symlinkSync('..2026', mounted.path('..data'))
  symlinkSync('..data/key.pem', mounted.path('key.pem'))
  for (const bench of [plain, mounted]) {
    bench.start()
    await bench.until(() => bench.outputs.counts.failures > 0)
    assert.match(
      bench.errors[0] ?? '',
      /not up to date: Cannot write certificates to \S+: another program has put \S+ there/,
    )
    assert.equal(bench.read('key.pem'), 'theirs')
    assert.equal(bench.outputs.counts.written, 0)
  }
  rmSync(plain.path('key.pem'))
  await plain.written(1)
  await plain.upToDate()
})

test('a directory that others can write to gets no key, and gets it once that is corrected', async t => {
  const bench = await Bench.create(t)
  mkdirSync(bench.directory)
  chmodSync(bench.directory, 0o777)
  bench.start()
  await bench.until(() => bench.errors.length > 0)
  assert.match(bench.errors[0] ?? '', /mode 0777, owner \d+:\d+\) can be written by others/)
  assert.deepEqual(readdirSync(bench.directory), [])
  chmodSync(bench.directory, 0o755)
  await bench.written(1)
  await bench.upToDate()
})

test('the set before stays for 30 s, and no older one; what a crash has left goes with the next write', async t => {
  const bench = await Bench.create(t, {}, HOUR)
  mkdirSync(bench.path('..livery-crashed'), { recursive: true })
  bench.start()
  await bench.written(1)
  const sets = () => readdirSync(bench.directory).filter(name => name.startsWith('..livery-'))
  assert.deepEqual(sets(), [readlinkSync(bench.path('..data'))])
  await bench.until(() => bench.outputs.counts.written > 1, 60_000)
  await bench.until(() => sets().length === 1, 100)
  assert.deepEqual(sets(), [readlinkSync(bench.path('..data'))])
})

test('an output that leaves the configuration is written no more, and its files stay', async t => {
  const bench = await Bench.create(t, {}, HOUR)
  bench.start()
  await bench.written(1)
  const before = bench.read('cert-chain.pem')
  bench.outputs.follow([])
  await bench.clock.advance(2 * HOUR)
  assert.equal(bench.read('cert-chain.pem'), before)
  bench.follow()
  await bench.written(2)
  await bench.upToDate()
})

test('a configuration that comes while another agent has the directories is written when they come back', async t => {
  const bench = await Bench.create(t)
  bench.start()
  await bench.written(1)
  bench.outputs.release()
  rmSync(bench.directory, { recursive: true })
  bench.follow()
  await bench.clock.advance(1_000)
  assert.equal(existsSync(bench.directory), false)
  bench.outputs.reclaim()
  await bench.written(2)
  await bench.upToDate()
})

test('a program is asked by its signal after each set, one whose number cannot be read is reported and asked later', async t => {
  const base = temporaryFolder(t)
  const pidFile = join(base, 'pid')
  const asked = join(base, 'asked')
  const bench = await Bench.create(t, { reload: { signal: 'SIGUSR2', pidFile } })
  bench.start()
  await bench.until(() => bench.errors.length > 0)
  assert.match(bench.errors[0] ?? '', /ENOENT/)
  await bench.upToDate()
  for (const wrong of ['1', '0', '-1', 'x', `${process.pid}`]) {
    writeFileSync(pidFile, wrong)
    const failures = bench.outputs.counts.failures
    await bench.until(() => bench.outputs.counts.failures > failures || bench.errors.length > 1, 10)
  }
  assert.match(bench.errors[1] ?? '', /pid does not hold the number of another process/)
  const script = `process.on('SIGUSR2', () => { require('fs').appendFileSync(${JSON.stringify(asked)}, 'x') }); setInterval(() => {}, 1000); process.send('ready')`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  t.after(() => child.kill('SIGKILL'))
  await once(child, 'message')
  writeFileSync(pidFile, `${child.pid}\n`)
  await bench.until(() => existsSync(asked))
  assert.equal(bench.outputs.counts.written, 1, 'only asked, not written again')
})

test('a command is run after each set, without the environment of the agent; a failure is reported', async t => {
  const base = temporaryFolder(t)
  const ran = join(base, 'ran')
  process.env['LIVERY_TEST_TOKEN'] = 'secret'
  t.after(() => delete process.env['LIVERY_TEST_TOKEN'])
  const script = `echo "token=$LIVERY_TEST_TOKEN at $(pwd)" > ${ran}; test -e ${base}/works || { echo no such server >&2; exit 3; }`
  const bench = await Bench.create(t, { reload: { command: ['/bin/sh', '-c', script] } })
  bench.start()
  await bench.until(() => bench.errors.length > 0, 0)
  assert.match(bench.errors[0] ?? '', /\/bin\/sh ended with 3: no such server$/)
  assert.equal(readFileSync(ran, 'utf8'), 'token= at /\n')
  writeFileSync(join(base, 'works'), '')
  rmSync(ran)
  await bench.clock.advance(2_000)
  await bench.until(() => existsSync(ran), 0)
  assert.equal(bench.outputs.counts.written, 1)
  new X509Certificate(bench.read('cert-chain.pem'))
})

test('a command that does not end is killed after 10 s', async t => {
  const base = temporaryFolder(t)
  const script = `echo $$ > ${base}/pid; exec sleep 60`
  const bench = await Bench.create(t, { reload: { command: ['/bin/sh', '-c', script] } })
  bench.start()
  await bench.until(() => existsSync(join(base, 'pid')), 0)
  await bench.until(() => bench.errors.length > 0, 1_000)
  assert.match(bench.errors[0] ?? '', /\/bin\/sh did not end within 10 s and was killed$/)
  const pid = Number(readFileSync(join(base, 'pid'), 'utf8'))
  await bench.until(() => !existsSync(`/proc/${pid}`), 0)
})

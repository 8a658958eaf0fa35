/** Secrets in real files, on a clock that the test moves; what the kernel reports arrives when it does. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '@livery/test-support'
import { plainKeyVault } from '../contract/key-vault.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { SecretItem } from '../secrets/secret-item.ts'
import type { FileSecretName } from '../secrets/secret-name.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { type IssuedPair, PairIssuer } from '../testing/pair-issuer.ts'
import { FileSecrets, type FileSecretsOptions } from './file-secrets.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const HOUR_MS = 3_600_000

class Bench {
  readonly clock = new FakeClock()
  readonly folder: string
  readonly files: FileSecrets
  readonly events: SecretEvent[] = []
  readonly items: (SecretItem | undefined)[] = []

  constructor(t: TestContext, folder: string, options: Partial<FileSecretsOptions>) {
    this.folder = folder
    this.files = new FileSecrets({
      clock: this.clock,
      vault: plainKeyVault,
      folders: [folder],
      expired: 'withhold',
      onWatchError: error => assert.fail(String(error)),
      report: (_, event) => this.events.push(event),
      ...options,
    })
    t.after(() => this.files[Symbol.dispose]())
  }

  static async start(t: TestContext, options: Partial<FileSecretsOptions> = {}): Promise<Bench> {
    return new Bench(t, temporaryFolder(t), options)
  }

  get pair(): FileSecretName {
    return { kind: 'file-pair', chain: join(this.folder, 'cert.pem'), key: join(this.folder, 'key.pem') }
  }

  write({ chain, key }: Partial<{ chain: readonly string[]; key: string }>): void {
    if (chain) writeFileSync(join(this.folder, 'cert.pem'), chain.join(''))
    if (key !== undefined) writeFileSync(join(this.folder, 'key.pem'), key)
  }

  subscribe(name: FileSecretName = this.pair): Disposable {
    return this.files.subscribe(name, item => this.items.push(item))
  }

  /** Moves the clock until the last event has this kind and `count` of its kind were reported; returns it. */
  async until<K extends SecretEvent['kind']>(kind: K, count = 1): Promise<Extract<SecretEvent, { kind: K }>> {
    const found = () => this.events.filter((event): event is Extract<SecretEvent, { kind: K }> => event.kind === kind)
    while (found().length < count) await this.clock.advance(50)
    const last = found().at(-1)
    assert.ok(last && found().length === count)
    return last
  }

  chain(): string | undefined {
    const item = this.files.current(this.pair)
    return item?.kind === 'certificate' ? item.certificateChain.toString() : undefined
  }
}

function textOf({ chain }: IssuedPair): string {
  return chain.join('')
}

test('a pair is read once for all who watch it, and let go of with the last of them', async t => {
  const bench = await Bench.start(t)
  const issuer = await PairIssuer.create(bench.clock)
  bench.write(await issuer.issue(WEB))
  const watches = [bench.subscribe(), bench.subscribe(), bench.subscribe()]
  const { serialNumber } = await bench.until('read-from-files')
  assert.equal(bench.items.length, 3)
  const item = bench.files.current(bench.pair)
  assert.ok(item?.kind === 'certificate' && item.serialNumber === serialNumber)
  assert.deepEqual(new Set(bench.items), new Set([item]))
  assert.deepEqual(bench.events.length, 1)
  for (const watch of watches) {
    assert.ok(!item.privateKey.isWiped)
    watch[Symbol.dispose]()
  }
  assert.ok(item.privateKey.isWiped)
  assert.deepEqual(bench.files.entries(), [])
})

test('a pair that stays half is reported after 10 s, and the old one is served until it is whole', async t => {
  const bench = await Bench.start(t)
  const issuer = await PairIssuer.create(bench.clock)
  const [before, after] = [await issuer.issue(WEB), await issuer.issue(WEB)]
  bench.write(before)
  using _watch = bench.subscribe()
  await bench.until('read-from-files')
  bench.write({ key: after.key })
  const since = bench.clock.now()
  const { reason, isServed } = await bench.until('files-unusable')
  assert.ok(bench.clock.now() - since >= 10_000)
  assert.match(
    reason,
    /its key does not match the first certificate in \S+cert\.pem\. Write the key and the chain of one issuance/,
  )
  assert.ok(isServed)
  assert.equal(bench.chain(), textOf(before))
  bench.write({ chain: after.chain })
  await bench.until('read-from-files', 2)
  assert.equal(bench.chain(), textOf(after))
  assert.equal(bench.items.length, 2)
  assert.equal(bench.files.entries()[0]?.fault, undefined)
})

test('a certificate is withdrawn when it ends, announced in its last fifth, and served again once a new one is there', async t => {
  const bench = await Bench.start(t)
  const issuer = await PairIssuer.create(bench.clock)
  bench.write(await issuer.issue(WEB))
  using _watch = bench.subscribe()
  const { notAfter = 0 } = await bench.until('read-from-files')
  await bench.clock.advance(0.7 * HOUR_MS)
  assert.equal(bench.events.length, 1)
  await bench.clock.advance(0.15 * HOUR_MS)
  assert.deepEqual(bench.events.at(-1), { kind: 'ending', notAfter })
  assert.equal(bench.files.entries()[0]?.notAfter, notAfter)
  await bench.clock.advance(0.2 * HOUR_MS)
  assert.deepEqual(await bench.until('withdrawn'), { kind: 'withdrawn', reason: 'expired' })
  assert.deepEqual([bench.items.length, bench.items.at(-1), bench.chain()], [2, undefined, undefined])
  bench.write(await issuer.issue(WEB))
  await bench.until('read-from-files', 2)
  assert.ok(bench.chain())
})

test('with `serve` a certificate that has ended stays, and one that had ended before is served', async t => {
  const bench = await Bench.start(t, { expired: 'serve' })
  const issuer = await PairIssuer.create(bench.clock)
  const ended = await issuer.issue(WEB)
  // X.509 has whole seconds.
  const notAfter = bench.clock.now() + HOUR_MS - (bench.clock.now() % 1_000)
  await bench.clock.advance(2 * HOUR_MS)
  bench.write(ended)
  using _watch = bench.subscribe()
  await bench.until('read-from-files')
  assert.equal((await bench.until('ending')).notAfter, notAfter)
  await bench.clock.advance(HOUR_MS)
  assert.equal(bench.chain(), textOf(ended))
})

test('a certificate that is not valid yet waits for its time, and the old one is served until then', async t => {
  const bench = await Bench.start(t)
  const before = await (await PairIssuer.create(bench.clock)).issue(WEB)
  const early = await (await PairIssuer.create(new FakeClock(bench.clock.now() + 600_000))).issue(WEB)
  bench.write(before)
  using _watch = bench.subscribe()
  await bench.until('read-from-files')
  bench.write(early)
  const { until } = await bench.until('served-later')
  assert.equal(bench.chain(), textOf(before))
  await bench.until('read-from-files', 2)
  assert.ok(bench.clock.now() >= until)
  assert.equal(bench.chain(), textOf(early))
})

test('roots are a set: bad ones are left out, and another order or form is not a change', async t => {
  const bench = await Bench.start(t)
  const roots = [await PairIssuer.create(bench.clock), await PairIssuer.create(bench.clock)].map(({ root }) => root)
  const file = join(bench.folder, 'ca.pem')
  const garbled = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
  writeFileSync(file, roots.join(garbled))
  const name = { kind: 'file-roots', file } as const
  using _watch = bench.subscribe(name)
  const { version, skipped } = await bench.until('read-from-files')
  assert.equal(skipped, 1)
  writeFileSync(file, `# comment\n${roots.toReversed().join('\n').replaceAll('\n', '\r\n')}`)
  await bench.clock.advance(300_000)
  writeFileSync(file, roots[0] ?? '')
  const later = await bench.until('read-from-files', 2)
  assert.notEqual(later.version, version)
  assert.equal(bench.items.length, 2)
})

test('the poll finds a change without an event', async t => {
  const bench = await Bench.start(t)
  const issuer = await PairIssuer.create(bench.clock)
  const above = join(bench.folder, 'above')
  const folder = join(above, 'below')
  const write = ({ chain, key }: IssuedPair) => {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'both.pem'), key + chain.join(''))
  }
  const both = join(folder, 'both.pem')
  write(await issuer.issue(WEB))
  using _watch = bench.subscribe({ kind: 'file-pair', chain: both, key: both })
  await bench.until('read-from-files')
  // The folder that is watched stays as it is, elsewhere.
  renameSync(above, `${above}-old`)
  write(await issuer.issue(WEB))
  await bench.clock.advance(61_000)
  await bench.until('read-from-files', 2)
})

/** A separate namespace in which no inotify watch is available. */
const NO_WATCHES = ['-Ur', 'sh', '-c', 'echo 0 > /proc/sys/user/max_inotify_watches && exec "$@"', 'sh']
const noNamespace = spawnSync('unshare', [...NO_WATCHES, 'true']).status === 0 ? false : 'no user namespaces here'

test('without any watch of the system, files are polled, and why is reported', { skip: noNamespace }, async t => {
  const script = fileURLToPath(new URL('../../test/files-without-watches.ts', import.meta.url))
  const args = [...NO_WATCHES, process.execPath, '--conditions=@livery/source', script, temporaryFolder(t)]
  const output = execFileSync('unshare', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
  assert.deepEqual(output.trim().split('\n'), ['ENOSPC', 'first', 'second', 'third'])
})

/** Runs as root of a private namespace, whose mounts nobody else sees. */
const OWN_MOUNTS = [
  '-Urm',
  'sh',
  '-c',
  'mount -t tmpfs none "$1" && mkdir "$1/lower" "$1/upper" "$1/work" && shift && exec "$@"',
]
const mounting = spawnSync('unshare', [...OWN_MOUNTS, 'sh', tmpdir(), 'true'])
const noMounts = mounting.status === 0 ? false : `no mounts in a user namespace here: ${mounting.stderr}`

for (const kind of ['overlay', 'bind'])
  test(`on a mount without events every final state is served by the poll: ${kind}`, { skip: noMounts }, async t => {
    const script = fileURLToPath(new URL('../../test/files-without-events.ts', import.meta.url))
    const folder = temporaryFolder(t)
    const run = [process.execPath, '--conditions=@livery/source', script, kind, folder]
    const output = execFileSync('unshare', [...OWN_MOUNTS, 'sh', folder, ...run], { encoding: 'utf8' })
    assert.deepEqual(
      output.trim().split('\n'),
      [1, 2, 3].map(version => `version ${version} after one poll`),
    )
  })

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { SecretManager } from '@livery/core'
import { CAError, type IssuedCertificate, parseSpiffeId } from '@livery/core/plugin'
import { TestKeyGenerator } from '@livery/core/testing'
import { identityOf, MountBench } from '../../../test/mount-bench.ts'
import { publishSet, replaceFile, writeSet } from '../../../test/mounted-files.ts'
import { FakeCA } from '../../conformance/index.ts'
import { warningsOf } from '../../testing/plugin-context.ts'
import { POLL_MS } from './client.ts'
import { mountOf } from './config.ts'

function serialOf({ chain: [leaf = ''] }: IssuedCertificate): string {
  return new X509Certificate(leaf).serialNumber
}

function refusedWith(message: RegExp): (error: unknown) => boolean {
  return error => error instanceof CAError && message.test(error.message)
}

test('each of fifty swaps of a mounted volume is reported once, for that identity alone, and read whole', async () => {
  await using bench = await MountBench.create()
  for (const name of ['web', 'api']) {
    publishSet(bench.folderOf(name), 0, await bench.ca.bring(identityOf(name)))
    await bench.issue(name)
  }
  await bench.untilTold('roots')
  await bench.trustBundle()
  for (let version = 1; version <= 50; version++) {
    const next = await bench.ca.bring(identityOf('web'))
    publishSet(bench.folderOf('web'), version, next)
    await bench.untilTold('web')
    const issued = await bench.issue('web')
    assert.deepEqual(issued.chain, next.chain)
    assert.equal(String(issued.privateKey), String(Buffer.from(next.privateKey)))
  }
  // Unchanged files were not reported.
  await bench.clock.advance(2 * POLL_MS)
  await bench.issue('api')
  assert.deepEqual(bench.notified(), [])
  assert.deepEqual(warningsOf(bench.context), [])
})

for (const order of [
  ['key.pem', 'cert-chain.pem'],
  ['cert-chain.pem', 'key.pem'],
] as const) {
  test(`${order[0]} is written first: one word when the other is there, and never half a pair`, async () => {
    await using bench = await MountBench.create()
    const folder = bench.folderOf('web')
    writeSet(folder, await bench.ca.bring(identityOf('web')))
    writeSet(bench.folderOf('api'), await bench.ca.bring(identityOf('api')))
    await bench.issue('web')
    await bench.issue('api')
    await bench.untilTold('roots')
    const { chain, privateKey } = await bench.ca.bring(identityOf('web'))
    const content = { 'cert-chain.pem': chain.join(''), 'key.pem': privateKey }
    writeFileSync(join(folder, order[0]), content[order[0]])
    // Notified later, seen later.
    writeSet(bench.folderOf('api'), await bench.ca.bring(identityOf('api')))
    await bench.untilTold('api')
    await bench.issue('api')
    writeFileSync(join(folder, order[1]), content[order[1]])
    await bench.untilTold('web')
    assert.deepEqual((await bench.issue('web')).chain, chain)
  })
}

test('a pair that is half written is waited for, and given when it is whole', async () => {
  await using bench = await MountBench.create()
  const old = await bench.ca.bring(identityOf('web'))
  const { chain, roots, privateKey } = await bench.ca.bring(identityOf('web'))
  writeSet(bench.folderOf('web'), { ...old, privateKey })
  const asked = bench.issue('web')
  await bench.clock.waitForDeadline(time => time === bench.clock.now() + 50)
  writeSet(bench.folderOf('web'), { chain, roots, privateKey })
  await bench.clock.advance(50)
  assert.deepEqual((await asked).chain, chain)
})

test('a pair that stays half written is refused after less than a second, by abort at once', async () => {
  await using bench = await MountBench.create()
  const { privateKey } = await bench.ca.bring(identityOf('web'))
  writeSet(bench.folderOf('web'), { ...(await bench.ca.bring(identityOf('web'))), privateKey })
  const refused = assert.rejects(
    bench.issue('web'),
    refusedWith(/key\.pem: its key does not match the first certificate in .*cert-chain\.pem/),
  )
  await bench.waitInVain()
  await refused

  const controller = new AbortController()
  const aborted = assert.rejects(bench.issue('web', controller.signal), { message: 'nobody waits' })
  await bench.clock.waitForDeadline(time => time === bench.clock.now() + 50)
  controller.abort(new Error('nobody waits'))
  await aborted
})

test('closing ends a call that waits for a pair to be whole', async () => {
  await using bench = await MountBench.create()
  const { privateKey } = await bench.ca.bring(identityOf('web'))
  writeSet(bench.folderOf('web'), { ...(await bench.ca.bring(identityOf('web'))), privateKey })
  const refused = assert.rejects(bench.issue('web'), refusedWith(/its client is closed/))
  await bench.clock.waitForDeadline(time => time === bench.clock.now() + 50)
  await bench.client[Symbol.asyncDispose]()
  await refused
})

test('an identity whose folder is missing is refused at once, and reported when the folder appears', async () => {
  await using bench = await MountBench.create()
  await assert.rejects(bench.issue('web'), refusedWith(/cert-chain\.pem: it is not there\. Have it written there/))
  mkdirSync(bench.folderOf('web'))
  writeSet(bench.folderOf('web'), await bench.ca.bring(identityOf('web')))
  await bench.until(() => bench.notified().includes('web'))
  await bench.issue('web')
  assert.deepEqual(warningsOf(bench.context), [])
})

test('identities whose files are missing do not make the CA count as down', async () => {
  await using bench = await MountBench.create()
  const { client: ca, clock } = bench
  const keyGenerator = new TestKeyGenerator()
  await using manager = new SecretManager({ ca, clock, keyGenerator, trustDomain: 'cluster.local' })
  const kinds: string[] = []
  manager.events.subscribe(({ event }) => kinds.push(event.kind))
  const names = ['web', 'api', 'db', 'cache', 'queue']
  for (const name of names) manager.add(identityOf(name))
  while (kinds.filter(kind => kind === 'retry-planned').length < 3 * names.length) await clock.advance(100)
  assert.deepEqual(new Set(kinds), new Set(['csr-sent', 'ca-error', 'shared-failure', 'retry-planned']))
  assert.deepEqual(new Set(manager.entries().map(({ lastFailure }) => lastFailure?.code)), new Set(['unavailable']))
})

test('a pair without its roots is refused, and reported when they appear', async () => {
  await using bench = await MountBench.create()
  const set = await bench.ca.bring(identityOf('web'))
  writeSet(bench.folderOf('web'), set)
  const roots = join(bench.folderOf('web'), 'root-cert.pem')
  unlinkSync(roots)
  const refused = assert.rejects(bench.issue('web'), refusedWith(/root-cert\.pem: it is not there/))
  await bench.waitInVain()
  await refused
  replaceFile(roots, set.roots.join(''))
  await bench.until(() => bench.notified().includes('web'))
  assert.deepEqual((await bench.issue('web')).roots, set.roots)
})

test('deleted or unusable files cause one warning, at the second poll, and a report when they are good again', async () => {
  await using bench = await MountBench.create()
  const folder = bench.folderOf('web')
  writeSet(folder, await bench.ca.bring(identityOf('web')))
  await bench.issue('web')
  await bench.untilTold('roots')
  rmSync(folder, { recursive: true })
  for (let poll = 0; poll < 4; poll++) await bench.clock.advance(POLL_MS)
  await bench.until(() => warningsOf(bench.context).length > 1)
  assert.deepEqual(
    warningsOf(bench.context)
      .map(line => line.replace(folder, 'FOLDER').replace(/ Have.*files\./, ''))
      .sort(),
    ['cert-chain.pem', 'root-cert.pem'].map(
      name =>
        `Cannot use FOLDER/${name}: it is not there. Have it written there, or correct the path that names it. What was read before stays in use.`,
    ),
  )
  assert.deepEqual(bench.notified(), [])
  writeSet(folder, await bench.ca.bring(identityOf('web')))
  await bench.until(() => bench.notified().includes('web'))
})

test('new roots are reported once for all files, before they are fetched, and the bundle contains all', async () => {
  await using bench = await MountBench.create()
  const names = ['web', 'api', 'db']
  for (const name of names) {
    writeSet(bench.folderOf(name), await bench.ca.bring(identityOf(name)))
    await bench.issue(name)
  }
  await bench.untilTold('roots')
  assert.deepEqual(await bench.trustBundle(), bench.ca.trustBundle())
  await bench.ca.addRoot()
  const [old, both] = [bench.ca.trustBundle().slice(0, 1), bench.ca.trustBundle()]
  for (const name of names)
    replaceFile(join(bench.folderOf(name), 'root-cert.pem'), both.toReversed().join('\n# and\n'))
  await bench.untilTold('roots')
  assert.deepEqual((await bench.trustBundle()).toSorted(), both.toSorted())
  // Only what all have given up is given up.
  replaceFile(join(bench.folderOf('web'), 'root-cert.pem'), old.join(''))
  assert.deepEqual((await bench.trustBundle()).toSorted(), both.toSorted())
  for (const name of names) replaceFile(join(bench.folderOf(name), 'root-cert.pem'), old.join(''))
  await bench.untilTold('roots')
  assert.deepEqual(await bench.trustBundle(), old)
})

test('a word of which nobody takes notice is said again after ten seconds, at the next look', async () => {
  await using bench = await MountBench.create()
  writeSet(bench.folderOf('web'), await bench.ca.bring(identityOf('web')))
  await bench.issue('web')
  await bench.untilTold('roots')
  await bench.trustBundle()
  writeSet(bench.folderOf('web'), await bench.ca.bring(identityOf('web')))
  await bench.untilTold('web')
  await bench.clock.advance(POLL_MS)
  await bench.untilTold('web')
  await bench.issue('web')
  await bench.clock.advance(POLL_MS)
  await bench.issue('web')
  assert.deepEqual(bench.notified(), [])
})

test('roots in one file are known before any identity, and stay known while it is broken', async () => {
  await using bench = await MountBench.create('../roots.pem')
  await assert.rejects(bench.trustBundle(), refusedWith(/roots\.pem: it is not there/))
  const file = join(bench.folder, 'roots.pem')
  const roots = bench.ca.trustBundle()
  replaceFile(file, roots.join(''))
  assert.deepEqual(await bench.trustBundle(), roots)
  for (const broken of ['', 'nothing', roots.join('').slice(0, 300)]) {
    writeFileSync(file, broken)
    assert.deepEqual(await bench.trustBundle(), roots)
  }
  unlinkSync(file)
  assert.deepEqual(await bench.trustBundle(), roots)
})

test('of a bundle with some bad certificates the good ones are used, and a warning says so', async () => {
  await using bench = await MountBench.create('../roots.pem')
  const roots = bench.ca.trustBundle()
  const bad = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'
  writeFileSync(join(bench.folder, 'roots.pem'), bad + roots.join('') + roots.join(''))
  assert.deepEqual(await bench.trustBundle(), roots)
  await bench.trustBundle()
  assert.deepEqual(
    warningsOf(bench.context).map(line => line.replace(bench.folder, '')),
    ['1 certificates in /roots.pem cannot be parsed and are left out. Replace them.'],
  )
})

test('where roots names the chain, its self-signed certificates are the roots', async () => {
  await using bench = await MountBench.create('cert-chain.pem')
  const set = await bench.ca.bring(identityOf('web'))
  writeSet(bench.folderOf('web'), { ...set, chain: [...set.chain, ...set.roots] })
  const issued = await bench.issue('web')
  assert.deepEqual([issued.chain, issued.roots], [set.chain, set.roots])
  assert.deepEqual(await bench.trustBundle(), set.roots)
})

test('a folder is let go of when nobody has asked for its identity for an hour and its certificate has ended', async () => {
  await using bench = await MountBench.create()
  writeSet(bench.folderOf('web'), await bench.ca.bring(identityOf('web'), 2 * 3_600))
  await bench.issue('web')
  await assert.rejects(bench.issue('api'), refusedWith(/it is not there/))
  const waiting = () => bench.clock.deadlines().length
  await bench.until(() => bench.notified().includes('roots'))
  assert.equal(waiting(), 4)
  await bench.clock.advance(3_600_000 + POLL_MS)
  await bench.until(() => waiting() === 2)
  await bench.clock.advance(3_600_000)
  await bench.until(() => waiting() === 0)
  // Asked for again, it is there again.
  writeSet(bench.folderOf('web'), await bench.ca.bring(identityOf('web'), 6 * 3_600))
  await bench.issue('web')
})

test('the last fifth of a certificate without a newer one is warned of once', async () => {
  await using bench = await MountBench.create()
  writeSet(bench.folderOf('web'), await bench.ca.bring(identityOf('web'), 6_000))
  await bench.issue('web')
  await bench.clock.advance(4_700_000)
  await setImmediate()
  assert.deepEqual(warningsOf(bench.context), [])
  await bench.clock.advance(300_000)
  await bench.until(() => warningsOf(bench.context).length > 0)
  await bench.clock.advance(300_000)
  await bench.issue('web')
  assert.equal(warningsOf(bench.context).length, 1)
  assert.match(
    warningsOf(bench.context)[0] ?? '',
    /cert-chain\.pem ends at 2026-01-01T01:40:00\.000Z, and no newer one/,
  )
})

test('three hundred folders that change together are each reported once', async () => {
  await using bench = await MountBench.create('../roots.pem')
  writeFileSync(join(bench.folder, 'roots.pem'), bench.ca.trustBundle().join(''))
  const names = Array.from({ length: 300 }, (_, index) => `sa-${index}`)
  const sets = new Map<string, Awaited<ReturnType<typeof bench.ca.bring>>>()
  for (const name of names) {
    sets.set(name, await bench.ca.bring(identityOf(name)))
    publishSet(bench.folderOf(name), 0, await bench.ca.bring(identityOf(name)))
    await bench.issue(name)
  }
  await bench.trustBundle()
  bench.notified()
  for (const [name, set] of sets) publishSet(bench.folderOf(name), 1, set)
  await bench.untilTold(...names)
  const serials = await Promise.all(names.map(async name => serialOf(await bench.issue(name))))
  assert.equal(new Set(serials).size, 300)
})

test('an identity of another trust domain is denied: its roots would be trusted in this one', async () => {
  await using bench = await MountBench.create()
  const identity = parseSpiffeId('spiffe://other.example/ns/default/sa/web')
  const { signal } = new AbortController()
  const asked = bench.client.issue({ identity, ttlSeconds: 60, signal, csr: () => assert.fail('asked for a CSR') })
  await assert.rejects(
    asked,
    error => error instanceof CAError && error.code === 'denied' && /trust domain cluster\.local/.test(error.message),
  )
  assert.deepEqual(await bench.trustBundle(), [])
})

test('files behind links to a replaced folder are followed', async () => {
  await using bench = await MountBench.create()
  const folder = bench.folderOf('web')
  writeSet(folder, await bench.ca.bring(identityOf('web')))
  const first = serialOf(await bench.issue('web'))
  await bench.untilTold('roots')
  writeSet(`${folder}-next`, await bench.ca.bring(identityOf('web')))
  renameSync(folder, `${folder}-old`)
  renameSync(`${folder}-next`, folder)
  await bench.untilTold('web')
  assert.notEqual(serialOf(await bench.issue('web')), first)
  assert.ok(readFileSync(join(folder, 'key.pem')).length > 0)
})

test('roots in the folder of one identity come with that identity alone, and are a change of it', async () => {
  await using bench = await MountBench.create('root-cert.pem', 'identity')
  for (const name of ['web', 'api']) {
    writeSet(bench.folderOf(name), await bench.ca.bring(identityOf(name)))
    await bench.issue(name)
  }
  assert.equal(bench.client.trustBundle, undefined)
  const other = await FakeCA.create({ clock: bench.clock })
  const [honest = '', evil = ''] = [...bench.ca.trustBundle(), ...other.trustBundle()]
  replaceFile(join(bench.folderOf('web'), 'root-cert.pem'), honest + evil)
  await bench.untilTold('web')
  const [web, api] = [await bench.issue('web'), await bench.issue('api')]
  assert.deepEqual([web.roots, web.rootsFor], [[honest, evil], 'identity'])
  assert.deepEqual([api.roots, api.rootsFor], [[honest], 'identity'])
  await bench.clock.advance(2 * POLL_MS)
  assert.deepEqual(bench.notified(), [])
})

test('a path without placeholders speaks for the trust domain, one with some for the identity, unless rootsFor says more', () => {
  const rootsFor = (config: object) => mountOf({ layout: 'istio', ...config }).rootsFor
  assert.equal(rootsFor({}), 'trust-domain')
  assert.equal(rootsFor({ folder: '/ids/{name}' }), 'identity')
  assert.equal(rootsFor({ folder: '/ids/{name}', roots: '/ids/roots.pem' }), 'trust-domain')
  assert.equal(rootsFor({ folder: '/ids', chain: '{name}.crt', roots: 'ca.crt' }), 'trust-domain')
  assert.equal(rootsFor({ folder: '/ids/{name}', rootsFor: 'trust-domain' }), 'trust-domain')
})

test('thousands of roots in a file are refused by their number', async () => {
  await using bench = await MountBench.create()
  const set = await bench.ca.bring(identityOf('web'))
  writeSet(bench.folderOf('web'), { ...set, roots: Array.from({ length: 1_000 }, () => set.roots[0] ?? '') })
  const refused = assert.rejects(
    bench.issue('web'),
    refusedWith(/root-cert\.pem: it has 1000 PEM blocks, more than 120/),
  )
  await bench.waitInVain()
  await refused
})

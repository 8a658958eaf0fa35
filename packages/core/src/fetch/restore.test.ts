import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { Restarts } from '../../test/restarts.ts'
import { CAError } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { TestKeyGenerator } from '../testing/test-key-generator.ts'
import { derToPem } from '../x509/pem.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const HOUR = 3_600_000

const down = () => Promise.reject(new CAError('unavailable', 'the CA is down'))

test('after a restart every identity is served from the store, with its roots, while the CA is down', async () => {
  await using restarts = await Restarts.create()
  const serials = await restarts.runOnce(WEB, API)
  const { ca } = restarts
  ca.requests.length = 0
  ca.answer = down
  ca.trustBundle = down
  await using run = await restarts.start()
  const bundle = run.bench.manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
  assert.ok(bundle?.kind === 'bundle')
  assert.equal(Buffer.from(bundle.trustedCa).toString(), ca.roots.join(''))
  const items = [await run.bench.add(WEB), await run.bench.add(API)]
  assert.deepEqual(
    items.map(item => item.serialNumber),
    serials,
  )
  assert.equal(ca.requests.length, 0)
  assert.equal(run.bench.last('restored').from, 'store')
})

test('restored() resolves when every identity that was added has what the store has for it', async () => {
  await using restarts = await Restarts.create()
  const identities = Array.from({ length: 40 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/load/sa/sa-${index}`)
  const serials = await restarts.runOnce(...identities)
  restarts.ca.answer = down
  await using run = await restarts.start()
  const { manager } = run.bench
  for (const identity of identities) manager.add(identity)
  await manager.restored()
  const served = identities.map(identity => manager.current({ kind: 'identity', identity }))
  assert.deepEqual(
    served.map(item => item?.kind === 'certificate' && item.serialNumber),
    serials,
  )
})

test('a restored certificate is renewed at the time at which it would have been without the restart', async () => {
  await using restarts = await Restarts.create()
  const { clock, ca } = restarts
  let planned: number | undefined
  {
    await using run = await restarts.start({ random: () => 0.9 })
    await run.bench.add(WEB)
    planned = run.bench.manager.entries()[0]?.renewAt
  }
  await clock.advance(3 * HOUR)
  for (const random of [() => 0.1, () => 0.6]) {
    await using run = await restarts.start({ random })
    await run.bench.add(WEB)
    assert.equal(run.bench.manager.entries()[0]?.renewAt, planned)
    assert.equal(run.bench.manager.entries()[0]?.lastSuccessAt, clock.now() - 3 * HOUR)
  }
  await using run = await restarts.start({ rotation: { ratio: 0.8, jitter: 0.1 } })
  await run.bench.add(WEB)
  const renewAt = run.bench.manager.entries()[0]?.renewAt ?? 0
  assert.ok(renewAt > (planned ?? 0), 'another ratio counts from the restart on')
  assert.equal(ca.requests.length, 1)
  await run.bench.toNextDue(WEB)
  await run.bench.until('issued', 1)
})

test('renewals that fell due while nothing ran are made soon, but not all at once', async () => {
  await using restarts = await Restarts.create()
  const { clock } = restarts
  const identities = Array.from({ length: 20 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/load/sa/sa-${index}`)
  await restarts.runOnce(...identities)
  await clock.advance(20 * HOUR)
  await using run = await restarts.start()
  for (const identity of identities) await run.bench.add(identity)
  const dues = run.bench.manager.entries().map(({ renewAt = 0 }) => renewAt - clock.now())
  assert.ok(Math.min(...dues) >= 0 && Math.max(...dues) <= 600_000)
  assert.ok(new Set(dues).size === 20)
  assert.equal(restarts.ca.requests.length, 20)
})

test('a pair that has expired overnight is not served: the CA is asked, and the reason reported', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  await restarts.clock.advance(25 * HOUR)
  await using run = await restarts.start()
  await run.bench.add(WEB)
  assert.match(run.bench.last('not-restored').reason, /stored certificate: it has expired: check the clocks/)
  assert.equal(restarts.ca.requests.length, 2)
})

test('a pair whose intermediate has ended overnight is not served, though its leaf is still valid', async () => {
  await using restarts = await Restarts.create()
  await restarts.signByEndingIntermediate()
  await restarts.runOnce(WEB)
  await restarts.clock.advance(25 * HOUR)
  restarts.ca.answer = down
  await using run = await restarts.start()
  run.bench.manager.add(WEB)
  await run.bench.until('not-restored', 1)
  assert.match(
    run.bench.last('not-restored').reason,
    /stored certificate: its chain does not lead .* element 1 of the chain has expired/,
  )
  assert.equal(run.bench.served(WEB), undefined)
})

test('a pair under a root that the CA has meanwhile replaced is served, and follows the new root', async () => {
  await using restarts = await Restarts.create()
  const { ca, clock } = restarts
  await restarts.runOnce(WEB)
  await ca.addRoot()
  ca.dropOldRoots()
  await clock.advance(HOUR)
  await using run = await restarts.start({ rotation: { overlapMs: 0 } })
  await run.bench.add(WEB)
  assert.equal(run.bench.last('restored').from, 'store')
  const due = run.bench.manager.entries()[0]?.renewAt ?? 0
  assert.ok(due < clock.now() + HOUR, 'it follows its root')
  await clock.advance(10_000)
  await run.bench.until('issued', 1)
  await clock.advance(60_000)
  const bundle = run.bench.manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
  assert.ok(bundle?.kind === 'bundle')
  assert.equal(Buffer.from(bundle.trustedCa).toString(), ca.roots.join(''))
})

test('a root that the CA dropped stays dropped after a restart, and is removed after the last leaf under it', async () => {
  await using restarts = await Restarts.create()
  const { ca } = restarts
  {
    await using run = await restarts.start()
    await run.bench.add(WEB)
    await ca.addRoot()
    await run.bench.until('roots-changed', 2)
    ca.dropOldRoots()
    await restarts.clock.advance(0)
  }
  await using run = await restarts.start({ rotation: { overlapMs: 0 } })
  assert.deepEqual(
    run.store.roots.map(({ standing }) => standing),
    ['given-up', 'listed'],
  )
  await run.bench.add(WEB)
  await restarts.clock.advance(10_000)
  await run.bench.until('issued', 1)
  await restarts.clock.advance(60_000)
  assert.equal(run.bench.manager.bundles()[0]?.roots.length, 1)
})

test('a certificate that waits for its time is kept only when it is served: until then the old one is there', async () => {
  await using restarts = await Restarts.create()
  const [serial] = await restarts.runOnce(WEB)
  {
    await using run = await restarts.start()
    await run.bench.add(WEB)
    restarts.ca.answer = (request, sign) => sign(request, { notBefore: restarts.clock.now() + 60_000 })
    await run.bench.toNextDue(WEB)
    await run.bench.until('served-later', 1)
  }
  await using run = await restarts.start()
  assert.equal((await run.bench.add(WEB)).serialNumber, serial)
})

test('an identity that is removed is in the store until its grace is over, and then wiped', async () => {
  await using restarts = await Restarts.create()
  {
    await using run = await restarts.start()
    await run.bench.add(WEB)
    run.bench.manager.remove(WEB)
  }
  assert.equal((await restarts.files()).length, 1)
  await using second = await restarts.start()
  await second.bench.add(WEB)
  second.bench.manager.remove(WEB)
  await restarts.clock.advance(300_000)
  await second.store[Symbol.asyncDispose]()
  assert.deepEqual(await restarts.files(), [])
})

test('a restored identity that nobody holds is wiped after an hour', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB, API)
  await using run = await restarts.start()
  await run.bench.add(WEB)
  await restarts.clock.advance(HOUR - 1)
  assert.equal((await restarts.files()).length, 2)
  await restarts.clock.advance(1)
  await run.store[Symbol.asyncDispose]()
  assert.equal((await restarts.files()).length, 1)
})

test('a pinned identity that is dropped when idle leaves nothing on disk', async () => {
  await using restarts = await Restarts.create()
  await using run = await restarts.start({ idle: { afterMs: HOUR, action: 'drop' } })
  await run.bench.add(WEB)
  await restarts.clock.advance(HOUR)
  await run.bench.until('withdrawn', 1)
  await run.store[Symbol.asyncDispose]()
  assert.deepEqual(await restarts.files(), [])
})

test('a source that brings its own keys is asked at once, and until then the old pair is served', async () => {
  await using restarts = await Restarts.create()
  const { ca } = restarts
  {
    await using run = await restarts.start()
    ca.answer = async (request, sign) => {
      const own = await new TestKeyGenerator().generate({ type: 'ecdsa-p256', identity: request.identity })
      const csr = async () => ({ der: own.csrDer, pem: derToPem(own.csrDer, 'CERTIFICATE REQUEST') })
      return { ...(await sign({ ...request, csr })), privateKey: own.privateKeyPem }
    }
    await run.bench.add(WEB)
  }
  ca.answer = down
  await using run = await restarts.start()
  await run.bench.add(WEB)
  await run.bench.until('ca-error', 1)
  assert.equal(run.bench.count('restored'), 1)
  assert.ok(run.bench.served(WEB))
})

test('a change that the CA reports while the pair is read is followed', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  const listeners: ((change: { kind: 'certificates' }) => void)[] = []
  restarts.ca.subscribe = listener => {
    listeners.push(listener)
    return { [Symbol.dispose]: () => {} }
  }
  await using run = await restarts.start()
  run.bench.manager.add(WEB)
  for (const listener of listeners) listener({ kind: 'certificates' })
  await run.bench.until('restored', 1)
  await restarts.clock.advance(0)
  const due = run.bench.manager.entries()[0]?.renewAt ?? 0
  assert.ok(due < restarts.clock.now() + HOUR)
})

test('an identity that is forgotten while it is read is not served, and wiped', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  await using run = await restarts.start()
  run.bench.manager.add(WEB)
  run.bench.manager.forget(WEB)
  await run.bench.manager[Symbol.asyncDispose]()
  assert.equal(run.bench.count('restored'), 0)
  await run.store[Symbol.asyncDispose]()
  assert.deepEqual(await restarts.files(), [])
})

test('a manager that is closed while it reads leaves no deadline', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  await using run = await restarts.start()
  run.bench.manager.add(WEB)
  await run.bench[Symbol.asyncDispose]()
  assert.equal(run.bench.count('restored'), 0)
})

test('roots that cannot be read cost a call to the CA, and nothing else', async () => {
  await using restarts = await Restarts.create()
  const [serial] = await restarts.runOnce(WEB)
  const names = await readdir(restarts.directory)
  const path = join(restarts.directory, names.find(name => name.endsWith('.roots.pem')) ?? '')
  const text = await readFile(path, 'utf8')
  await writeFile(path, text.slice(0, -60))
  await using run = await restarts.start()
  assert.match(run.store.warnings.join(), /the stored roots are not used: .*is cut short or was changed/)
  assert.equal((await run.bench.add(WEB)).serialNumber, serial)
  assert.equal(restarts.ca.requests.length, 1)
})

test('a store that cannot be written costs a word in the ledger, and no certificate', async () => {
  await using restarts = await Restarts.create()
  await using run = await restarts.start()
  await rm(restarts.directory, { recursive: true, maxRetries: 5 })
  await run.bench.add(WEB)
  await run.bench.until('not-stored', 1)
  assert.match(run.bench.last('not-stored').reason, /cannot be kept: ENOENT/)
  assert.ok(run.bench.served(WEB))
  await run.bench.manager[Symbol.asyncDispose]()
  await mkdir(restarts.directory, { mode: 0o700 })
  await run.store[Symbol.asyncDispose]()
  assert.equal((await restarts.files()).length, 1, 'it is kept as soon as it can be')
})

test('an identity that is asked for on demand is served from the store as well', async () => {
  await using restarts = await Restarts.create()
  const [serial] = await restarts.runOnce(WEB)
  await using run = await restarts.start()
  run.bench.request(WEB)
  const item = await run.bench.add(WEB)
  assert.equal(item.serialNumber, serial)
  assert.equal(restarts.ca.requests.length, 1)
})

test('a disk that hangs does not keep an identity from the CA', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  await using run = await restarts.start()
  run.store.read = () => new Promise(() => {})
  run.bench.manager.add(WEB)
  await restarts.clock.advance(5_000)
  await run.bench.until('issued', 1)
  assert.match(run.bench.last('not-restored').reason, /the disk did not answer within 5000 ms/)
})

test('each new certificate replaces the previous one on disk', async () => {
  await using restarts = await Restarts.create()
  let serial: string | undefined
  {
    await using run = await restarts.start()
    await run.bench.add(WEB)
    for (let issued = 2; issued <= 4; issued++) {
      await run.bench.toNextDue(WEB)
      await run.bench.until('issued', issued)
    }
    serial = run.bench.served(WEB)?.serialNumber
  }
  await using run = await restarts.start()
  assert.equal((await run.bench.add(WEB)).serialNumber, serial)
})

test('without stored roots and with the CA down, its roots are asked for once and not by each identity', async () => {
  await using restarts = await Restarts.create()
  const identities = Array.from({ length: 20 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/load/sa/sa-${index}`)
  await restarts.runOnce(...identities)
  for (const name of await readdir(restarts.directory))
    if (name.endsWith('.roots.pem')) await rm(join(restarts.directory, name))
  let asked = 0
  restarts.ca.answer = down
  restarts.ca.trustBundle = () => {
    asked++
    return down()
  }
  await using run = await restarts.start()
  for (const identity of identities) run.bench.manager.add(identity)
  await run.bench.until('not-restored', 20)
  assert.match(run.bench.last('not-restored').reason, /no root is known that it could be under/)
  assert.equal(asked, 1)
})

test('a root of a CA with a list, which was replaced by one without, is dropped once nothing is under it', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  const { ca, clock } = restarts
  await ca.addRoot()
  ca.dropOldRoots()
  Object.defineProperty(ca, 'trustBundle', { value: undefined })
  await using run = await restarts.start()
  await run.bench.add(WEB)
  for (let issued = 1; issued <= 4; issued++) {
    await run.bench.toNextDue(WEB)
    await run.bench.until('issued', issued)
    await clock.advance(60_000)
  }
  const bundle = run.bench.manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
  assert.ok(bundle?.kind === 'bundle')
  assert.equal(Buffer.from(bundle.trustedCa).toString(), ca.roots.join(''))
})

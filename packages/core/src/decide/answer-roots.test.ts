import assert from 'node:assert/strict'
import { webcrypto, X509Certificate } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Bench } from '../../test/manager-bench.ts'
import { Restarts } from '../../test/restarts.ts'
import type { CAClient } from '../contract/ca-client.ts'
import type { RootSource } from '../contract/root-source.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { FileStore } from '../store/file-store.ts'
import { type CertificateOverrides, makeIssuer, type TestCA } from '../testing/test-ca.ts'
import { RootReader } from '../trust/root-reader.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const START = Date.UTC(2026, 0, 1)
const DAY = 86_400_000

/** A CA that reports roots only beside its certificates, as Istio's does. */
const withoutList = (ca: TestCA) => void Object.assign(ca, { trustBundle: undefined, subscribe: undefined })

const withList = (list: CAClient['trustBundle']) => (ca: TestCA) =>
  void Object.assign(ca, { trustBundle: list, subscribe: undefined })

async function makeRoots(count: number, subject = (index: number) => `CN=other ${index}`): Promise<readonly string[]> {
  return await Promise.all(
    Array.from({ length: count }, async (_, index) => (await makeIssuer(subject(index), START)).pem),
  )
}

/** The roots that are trusted, pushed and shown; they must agree. */
function trusted({ manager }: Bench): readonly string[] {
  const [bundle] = manager.bundles()
  const pems = bundle?.roots.map(({ pem }) => pem) ?? []
  const item = manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
  const pushed = item?.kind === 'bundle' ? Buffer.from(item.trustedCa).toString() : ''
  for (const pem of pems) assert.ok(pushed.includes(pem))
  assert.equal(pushed.length, pems.join('').length)
  return pems
}

const evil = await makeIssuer('CN=evil', START)
const [other = ''] = await makeRoots(1)
const tomorrow = await makeIssuer('CN=tomorrow', START + DAY)

const otherKey = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify'])

const refused: readonly (readonly [string, RegExp, CertificateOverrides])[] = [
  [
    'another identity',
    /instead of the identity/,
    { names: [{ type: 'url', value: 'spiffe://cluster.local/ns/default/sa/db' }] },
  ],
  ['another key', /another key/, { publicKey: otherKey.publicKey }],
  ['a CA certificate', /CA certificate/, { ca: true }],
  ['an ended certificate', /expired/, { notBefore: START - 2 * DAY, notAfter: START - DAY }],
  ['one of tomorrow', /only more than 5 minutes/, { notBefore: START + DAY, notAfter: START + 2 * DAY }],
  ['a root that did not sign', /does not lead to/, { issuer: await makeIssuer('CN=other 0', START) }],
]
for (const [what, message, overrides] of refused)
  test(`an answer with ${what} leaves no root: none is trusted, pushed, stored, or used for the next answer`, async () => {
    await using restarts = await Restarts.create()
    withoutList(restarts.ca)
    await restarts.runOnce(WEB)
    const { ca, clock } = restarts
    const honest = ca.roots
    const run = await restarts.start()
    const { bench } = run
    await bench.add(WEB)
    const pushed: unknown[] = []
    bench.manager.watch({ kind: 'bundle', trustDomain: 'cluster.local' }, item => pushed.push(item))
    ca.answer = async (request, sign) => {
      await request.csr()
      const roots = [...honest, evil.pem, other]
      return {
        ...(await sign(request, { issuer: evil, ...overrides })),
        roots,
        accepted: () => assert.fail('accepted'),
      }
    }
    bench.manager.add(API)
    await bench.until('ca-error', 1)
    assert.match(bench.last('ca-error').message, message)
    // The chain is a good one now, but nobody has vouched for its root.
    ca.answer = async (request, sign) => ({ chain: (await sign(request, { issuer: evil })).chain })
    await bench.toNextDue(API)
    await bench.until('ca-error', 2)
    assert.match(bench.last('ca-error').message, /does not lead to the one known root/)
    await clock.advance(75_000)
    assert.deepEqual(trusted(bench), honest)
    assert.deepEqual(pushed, [])
    await run[Symbol.asyncDispose]()
    const later = await FileStore.open({ directory: restarts.directory, trustDomain: 'cluster.local', clock })
    assert.deepEqual(
      later.roots.map(({ pem }) => pem),
      honest,
    )
  })

test('a bootstrap pair that is refused leaves no root either', async () => {
  await using restarts = await Restarts.create()
  const { ca, clock } = restarts
  withoutList(ca)
  ca.answer = async (request, sign) => ({
    ...(await sign(request, { issuer: evil, notAfter: clock.now() + 1_000 })),
    roots: [evil.pem],
  })
  await restarts.runOnce(WEB)
  const [stored = ''] = await restarts.files()
  const pair = (await readFile(stored, 'utf8')).replace(/^[^-]*/, '')
  await rm(restarts.directory, { recursive: true })
  const bootstrap = join(restarts.path, 'bootstrap')
  await mkdir(bootstrap)
  await writeFile(join(bootstrap, 'web.pem'), pair + evil.pem, { mode: 0o600 })
  ca.answer = () => Promise.reject(new Error('down'))
  await clock.advance(2_000)
  await using run = await restarts.start({}, bootstrap)
  run.bench.manager.add(WEB)
  await run.bench.until('not-restored', 1)
  assert.match(run.bench.last('not-restored').reason, /it has expired/)
  assert.deepEqual(trusted(run.bench), [])
})

test('of an accepted answer the root that its chain needs is taken first, and no more than 100 in all', async () => {
  await using bench = await Bench.create({}, withoutList)
  const { ca } = bench
  const junk = await makeRoots(99)
  ca.answer = async (request, sign) => ({ ...(await sign(request)), roots: [...junk, ...ca.roots] })
  await bench.add(WEB)
  assert.equal(trusted(bench).length, 100)
  const more = await makeRoots(99, index => `CN=more ${index}`)
  ca.answer = async (request, sign) => ({ ...(await sign(request)), roots: [...more, ...ca.roots] })
  await bench.add(API)
  const held = trusted(bench)
  assert.equal(held.length, 100)
  assert.ok(held.includes(ca.roots[0] ?? ''))
  assert.ok(!more.some(pem => held.includes(pem)))
  assert.match(
    bench.last('ca-error').message,
    /Roots were left out: root with serial \w+ has no room beside the 100 that are trusted; .*; and 96 more/,
  )
})

test('roots that come a few at a time have the same bound; those in use stay, and a chain under one that has no place is refused', async () => {
  await using bench = await Bench.create({}, withoutList)
  const { ca, manager, clock } = bench
  const item = await bench.add(WEB)
  const pushes: number[] = []
  manager.watch({ kind: 'bundle', trustDomain: 'cluster.local' }, () => pushes.push(trusted(bench).length))
  for (let round = 0; round < 15; round++) {
    const roots = await makeRoots(10, index => `CN=round ${round} ${index}`)
    ca.answer = async (request, sign) => ({ ...(await sign(request)), roots: [...ca.roots, ...roots] })
    await bench.add(`spiffe://cluster.local/ns/default/sa/round-${round}`)
  }
  assert.equal(trusted(bench).length, 100)
  assert.equal(pushes.at(-1), 100)
  assert.equal(pushes.length, 10, 'nothing is pushed once there is no place')
  ca.answer = async (request, sign) => ({ ...(await sign(request, { issuer: evil })), roots: [evil.pem] })
  manager.add(API)
  const errors = bench.count('ca-error')
  await bench.until('ca-error', errors + 2) // the root, and then the certificate
  assert.match(bench.last('ca-error').message, /there is no room for it/)
  assert.equal(manager.current({ kind: 'identity', identity: API }), undefined)
  assert.equal(bench.served(WEB)?.serialNumber, item.serialNumber)
  assert.ok(trusted(bench).includes(ca.roots[0] ?? ''))
  assert.ok(clock.now() > 0)
})

test('1 MB is the bound of all roots together, and 64 kB the bound of one', async () => {
  await using bench = await Bench.create({}, withoutList)
  const { ca } = bench
  const long = await makeRoots(30, index => `CN=${String(index).padEnd(20_000, 'x')}`)
  const tooLong = (await makeIssuer(`CN=${'x'.repeat(30_000)}`, START)).pem
  assert.ok(tooLong.length > 65_536 && long.every(pem => pem.length < 65_536))
  for (const [index, roots] of [long.slice(0, 10), [tooLong, ...long.slice(10, 20)], long.slice(20)].entries()) {
    ca.answer = async (request, sign) => ({ ...(await sign(request)), roots: [...ca.roots, ...roots] })
    await bench.add(`spiffe://cluster.local/ns/default/sa/long-${index}`)
  }
  const held = trusted(bench)
  assert.ok(held.join('').length <= 1_048_576)
  assert.ok(held.length > 15 && held.length <= 20)
  assert.ok(!held.includes(tooLong))
})

test('200,000 roots in one answer, and in the list of a CA, are refused by their number: 100 are looked at', async () => {
  const flood = Array.from({ length: 200_000 }, () => other)
  {
    await using bench = await Bench.create({}, withoutList)
    bench.ca.answer = async (request, sign) => ({ ...(await sign(request)), roots: [...flood, ...bench.ca.roots] })
    bench.manager.add(WEB)
    await bench.until('ca-error', 1)
    assert.match(bench.last('ca-error').message, /does not lead to .*left out: there are 200001 roots, more than 100/)
    assert.deepEqual(trusted(bench), [])
  }
  await using bench = await Bench.create(
    {},
    withList(async () => flood),
  )
  await bench.until('ca-error', 1)
  assert.match(bench.last('ca-error').message, /there are 200000 roots, more than 100/)
  assert.deepEqual(trusted(bench), [other])
})

test('a list that is too long gives up no root: what it did not get to say is unknown', async () => {
  const listed: string[] = []
  await using bench = await Bench.create(
    {},
    withList(async () => listed),
  )
  listed.push(...bench.ca.roots)
  await bench.add(WEB)
  listed.splice(0, 1, ...(await makeRoots(120)))
  await bench.clock.advance(5 * 60_000)
  await bench.until('roots-changed', 2)
  await bench.clock.advance(60_000)
  const held = trusted(bench)
  assert.equal(held.length, 100)
  assert.ok(held.includes(bench.ca.roots[0] ?? ''))
})

test('where the bundle is full, a root of the whole list takes the place of one that the list no longer has, and of none in use', async () => {
  let listed: readonly string[] = []
  await using bench = await Bench.create(
    {},
    withList(async () => listed),
  )
  const [used = ''] = bench.ca.roots
  const old = await makeRoots(99)
  listed = [used, ...old]
  await bench.manager.add(WEB)
  await bench.until('issued', 1)
  await bench.clock.advance(5 * 60_000)
  await bench.until('roots-changed', 2)
  assert.equal(trusted(bench).length, 100)
  // The youngest: no root that the list still has may go before them.
  const [kept, gone] = [old.slice(0, -2), old.slice(-2)]
  const added = await makeRoots(2, index => `CN=new ${index}`)
  // The root in use is on the list no longer either, and stays until its leaf is replaced.
  listed = [...kept, ...added]
  await bench.clock.advance(5 * 60_000)
  await bench.until('roots-changed', 3)
  const held = trusted(bench)
  assert.equal(held.length, 100)
  assert.ok([used, ...kept, ...added].every(pem => held.includes(pem)))
  assert.ok(!gone.some(pem => held.includes(pem)))
})

const KEPT: readonly (readonly [how: string, keep: (bench: Bench, pem: string) => unknown])[] = [
  [
    'holds',
    ({ manager }, pem) =>
      manager.changeRoot('hold', new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase()),
  ],
  ['lists', ({ manager }, pem) => manager.useRootSources([operatorList(pem)])],
]
for (const [how, keep] of KEPT)
  test(`where the bundle is full, a root that an operator ${how} gives way to none`, async () => {
    let listed: readonly string[] = []
    await using bench = await Bench.create(
      {},
      withList(async () => listed),
    )
    const old = await makeRoots(99)
    listed = [...bench.ca.roots, ...old]
    await bench.add(WEB)
    await bench.clock.advance(5 * 60_000)
    await bench.until('roots-changed', 2)
    const [first = '', second = '', ...kept] = old
    await keep(bench, first)
    listed = [...bench.ca.roots, ...kept, ...(await makeRoots(2, index => `CN=new ${index}`))]
    await bench.clock.advance(5 * 60_000)
    await bench.until('roots-changed', 3)
    assert.deepEqual(
      [first, second].map(pem => trusted(bench).includes(pem)),
      [true, false],
    )
  })

function operatorList(pem: string): RootSource {
  return {
    trustDomain: 'cluster.local',
    name: 'anchors.pem',
    open(listener) {
      listener.listed([pem])
      return { [Symbol.dispose]() {} }
    },
  }
}

test('a CA that lists other roots again and again has as many announced as the bundle holds', async () => {
  let listed: readonly string[] = []
  await using bench = await Bench.create(
    { rotation: { settleMs: DAY } },
    withList(async () => listed),
  )
  listed = bench.ca.roots
  await bench.add(WEB)
  const before = bench.clock.deadlines().length
  for (let round = 0; round < 3; round++) {
    listed = await makeRoots(99, index => `CN=${round} ${index}`)
    await bench.clock.advance(5 * 60_000)
    await bench.until('roots-changed', round + 2)
  }
  assert.equal(trusted(bench).length, 100)
  const announced = bench.clock.deadlines().length - before
  assert.ok(announced <= 100, `${announced} deadlines`)
})

test('roots that are read at once take turns with everything else', async () => {
  const reader = new RootReader()
  const floods = await Promise.all(Array.from({ length: 40 }, (_, n) => makeRoots(20, index => `CN=${n} ${index}`)))
  const reading = Promise.all(floods.map(flood => reader.read(flood, START)))
  let turns = 0
  let isDone = false
  void reading.then(() => {
    isDone = true
  })
  for (; !isDone; turns++) await setImmediate()
  assert.ok((await reading).every(({ roots }) => roots.length === 20))
  // 800 roots, 16 a turn.
  assert.ok(turns >= 49, `800 roots were read within ${turns} turns of the event loop`)
})

test('a root that is not valid yet is not trusted, and a listed one is fetched again when it becomes valid', async () => {
  await using bench = await Bench.create({}, ca => {
    ca.trustBundle = async () => [...ca.roots, tomorrow.pem]
  })
  const { clock, ca } = bench
  await bench.until('roots-changed', 1)
  assert.deepEqual(trusted(bench), ca.roots)
  assert.match(bench.last('ca-error').message, /is valid only from Jan {2}1 23:59/)
  await clock.advance(DAY - 60_000)
  await bench.until('roots-changed', 2)
  assert.equal(trusted(bench).length, 2)
})
test('roots of 100 trust domains are held, and the agent’s own always has its place', async () => {
  await using bench = await Bench.create({ concurrency: 4 }, withoutList)
  const domains = Array.from({ length: 101 }, (_, index): SpiffeId => `spiffe://other-${index}.example/sa/web`)
  for (const identity of domains) bench.manager.add(identity)
  await bench.until('issued', 99)
  await bench.until('ca-error', 2)
  assert.match(bench.last('ca-error').message, /no room for it|roots of 100 trust domains are held already/)
  await bench.add(WEB)
  assert.equal(bench.manager.bundles().length, 100)
})

for (const [what, make, expected] of [
  ['150 roots', () => makeRoots(150), 100],
  ['930 kB of roots', () => makeRoots(17, index => `CN=${String(index).padEnd(20_000, 'x')}`), 17],
] as const)
  test(`of ${what} in the store ${expected} are trusted after a restart`, async () => {
    await using restarts = await Restarts.create()
    withoutList(restarts.ca)
    const roots = await make()
    {
      await using run = await restarts.start()
      const stored = { learnedAt: START, settlesAt: START, standing: 'inferred', leavesUntil: 0 } as const
      run.store.putRoots(roots.map(pem => ({ pem, ...stored })))
    }
    await using run = await restarts.start()
    assert.deepEqual(run.store.warnings, [])
    assert.deepEqual(trusted(run.bench).toSorted(), roots.slice(0, expected).toSorted())
  })

test('a plugin is notified that its answer was accepted, once it is', async () => {
  await using bench = await Bench.create()
  const accepted: SpiffeId[] = []
  bench.ca.answer = async (request, sign) => ({
    ...(await sign(request, request.identity === API ? { ca: true } : {})),
    accepted: () => accepted.push(request.identity),
  })
  await bench.add(WEB)
  bench.manager.add(API)
  await bench.until('ca-error', 1)
  assert.deepEqual(accepted, [WEB])
})

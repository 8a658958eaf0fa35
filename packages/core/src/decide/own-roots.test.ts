import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import { Restarts } from '../../test/restarts.ts'
import type { IssuedCertificate } from '../contract/ca-client.ts'
import type { SecretItem } from '../secrets/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { makeIssuer, type TestCA } from '../testing/test-ca.ts'
import { RootBudget } from '../trust/root-budget.ts'
import { RootReader } from '../trust/root-reader.ts'
import { splitCertificates } from '../x509/pem.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const START = Date.UTC(2026, 0, 1)
const evil = await makeIssuer('CN=evil', START)

/** As folders of single identities: each identity has its own roots, by default the CA's. */
function folders(ca: TestCA, roots: Map<SpiffeId, readonly string[]> = new Map()) {
  Object.assign(ca, { trustBundle: undefined })
  ca.answer = async (request, sign): Promise<IssuedCertificate> => ({
    ...(await sign(request)),
    roots: roots.get(request.identity) ?? ca.roots,
    rootsFor: 'identity',
  })
  return roots
}

function rootsIn(item: SecretItem | undefined): readonly string[] {
  return item?.kind === 'bundle' ? splitCertificates(Buffer.from(item.trustedCa).toString()).toSorted() : []
}

function seenBy({ manager }: Bench, identity?: SpiffeId): readonly string[] {
  return rootsIn(manager.current({ kind: 'bundle', trustDomain: 'cluster.local', ...(identity && { identity }) }))
}

test('a root of one identity is in no other bundle, and no certificate of another identity is verified with it', async () => {
  await using bench = await Bench.create({}, ca => void folders(ca))
  const { ca, manager } = bench
  const roots = folders(ca)
  for (const identity of [WEB, API] as const) await bench.add(identity)
  const pushed = new Map<string, (readonly string[])[]>()
  for (const identity of [WEB, API, undefined] as const)
    manager.watch({ kind: 'bundle', trustDomain: 'cluster.local', ...(identity && { identity }) }, item =>
      pushed.set(identity ?? 'all', [...(pushed.get(identity ?? 'all') ?? []), rootsIn(item)]),
    )
  const both = [...ca.roots, evil.pem].toSorted()
  roots.set(WEB, both)
  await bench.toNextDue(WEB)
  while (!pushed.has(WEB)) await bench.until('roots-changed', bench.count('roots-changed') + 1)
  assert.deepEqual(seenBy(bench, WEB), both)
  assert.deepEqual(seenBy(bench, API), ca.roots)
  assert.deepEqual(seenBy(bench), [])
  assert.deepEqual([...pushed], [[WEB, [both]]])
  ca.answer = async (request, sign) => ({
    ...(await sign(request, { issuer: evil })),
    roots: ca.roots,
    rootsFor: 'identity',
  })
  const errors = bench.count('ca-error')
  await bench.toNextDue(API)
  await bench.until('ca-error', errors + 1)
  assert.match(bench.last('ca-error').message, /does not lead to the one known root/)
  assert.deepEqual(
    manager.bundles().map(({ identity }) => identity),
    [WEB, API],
  )
})

test('own roots are a complete list: a missing root is removed after the overlap, and all are removed with the identity', async () => {
  const rotation = { settleMs: 10_000, overlapMs: 60_000 }
  await using bench = await Bench.create({ removalGraceMs: 0, rotation }, ca => void folders(ca))
  const { ca, clock, manager } = bench
  const roots = folders(ca)
  roots.set(WEB, [...ca.roots, evil.pem])
  await bench.add(WEB)
  assert.equal(seenBy(bench, WEB).length, 2)
  const gone: unknown[] = []
  manager.watch({ kind: 'bundle', trustDomain: 'cluster.local', identity: WEB }, item => gone.push(item))
  roots.delete(WEB)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  await clock.advance(59_999)
  assert.equal(seenBy(bench, WEB).length, 2, 'peers may have leaves under it')
  await clock.advance(1)
  assert.deepEqual(seenBy(bench, WEB), ca.roots)
  manager.forget(WEB)
  assert.deepEqual(seenBy(bench, WEB), [])
  assert.equal(gone.at(-1), undefined)
  assert.deepEqual(manager.bundles(), [])
})

test("an identity with its own roots also trusts its trust domain's, as they change", async () => {
  await using bench = await Bench.create()
  const { ca } = bench
  ca.answer = async (request, sign) => ({ ...(await sign(request)), roots: [evil.pem], rootsFor: 'identity' })
  await bench.add(WEB)
  const pushed: number[] = []
  bench.manager.watch({ kind: 'bundle', trustDomain: 'cluster.local', identity: WEB }, item =>
    pushed.push(rootsIn(item).length),
  )
  await ca.addRoot()
  await bench.until('roots-changed', 3)
  assert.deepEqual(seenBy(bench, WEB), [...ca.roots, evil.pem].toSorted())
  assert.deepEqual(seenBy(bench, API), ca.roots.toSorted())
  assert.deepEqual(pushed, [3])
})

test('after a restart they count for that identity as before', async () => {
  await using restarts = await Restarts.create()
  folders(restarts.ca)
  const [serial] = await restarts.runOnce(WEB)
  restarts.ca.answer = () => Promise.reject(new Error('down'))
  await using run = await restarts.start()
  assert.equal((await run.bench.add(WEB)).serialNumber, serial)
  assert.deepEqual(seenBy(run.bench, WEB), restarts.ca.roots)
  assert.deepEqual(seenBy(run.bench), [])
})

test('an answer that is refused, or comes when its identity is forgotten, leaves no own root', async () => {
  await using bench = await Bench.create({}, ca => void folders(ca))
  const { ca, manager } = bench
  ca.answer = async (request, sign) => ({ ...(await sign(request)), roots: [evil.pem], rootsFor: 'identity' })
  manager.add(WEB)
  await bench.until('ca-error', 1)
  const go = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  ca.answer = async (request, sign) => {
    const answer = await sign(request)
    asked.resolve()
    await go.promise
    return { ...answer, roots: ca.roots, rootsFor: 'identity' }
  }
  manager.add(API)
  await asked.promise
  go.resolve()
  manager.forget(API)
  await bench.clock.advance(0)
  assert.deepEqual(manager.bundles(), [])
  Object.assign(ca, { answer: async () => ({ chain: [], rootsFor: 'everybody' }) })
  manager.add('spiffe://cluster.local/ns/default/sa/db')
  await bench.until('ca-error', 2)
  assert.match(bench.last('ca-error').message, /rootsFor is neither trust-domain nor identity/)
})

test('of all own roots together 2,000 different ones are trusted, and honest folders with the same ones count once', async () => {
  const budget = new RootBudget()
  const { roots } = await new RootReader().read([evil.pem], START)
  const [one] = roots
  assert.ok(one)
  const others = Array.from({ length: 2_000 }, (_, index) => ({ ...one, fingerprint: String(index) }))
  for (let folder = 0; folder < 10_000; folder++) assert.ok(budget.take(one))
  assert.deepEqual(
    others.filter(root => !budget.take(root)),
    others.slice(-1),
  )
  assert.ok(budget.take(one))
  for (let folder = 0; folder <= 10_000; folder++) budget.release(one)
  assert.ok(others.slice(-1).every(root => budget.take(root)))
  const large = { ...one, fingerprint: 'large', pem: 'x'.repeat(16_777_216) }
  assert.ok(!budget.take(large))
})

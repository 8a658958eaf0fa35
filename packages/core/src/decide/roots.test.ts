import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { CAError } from '../contract/ca-client.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import { SecretManager } from '../secret-manager.ts'
import type { SecretManagerOptions } from '../secret-manager-options.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { TestCA } from '../testing/test-ca.ts'
import { TestKeyGenerator } from '../testing/test-key-generator.ts'

const SETTLE = 10_000
const never = new AbortController().signal
const identities = Array.from({ length: 5 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/default/sa/sa-${index}`)

async function setUp(options: Partial<SecretManagerOptions> = {}, prepare: (ca: TestCA) => void = () => {}) {
  const clock = new FakeClock()
  const ca = await TestCA.create(clock)
  prepare(ca)
  const events: { name: string; event: SecretEvent }[] = []
  let wake = Promise.withResolvers<void>()
  const manager = new SecretManager({
    ca,
    clock,
    keyGenerator: new TestKeyGenerator(),
    trustDomain: 'cluster.local',
    rotation: { settleMs: SETTLE, overlapMs: SETTLE },
    ...options,
  })
  manager.events.subscribe(({ name, event }) => {
    events.push({ name, event })
    wake.resolve()
    wake = Promise.withResolvers()
  })
  const count = (kind: SecretEvent['kind']) => events.filter(({ event }) => event.kind === kind).length
  const until = async (done: () => boolean) => {
    while (!done()) await wake.promise
  }
  const roots = () => {
    const bundle = manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
    assert.ok(bundle?.kind === 'bundle')
    const pem = Buffer.from(bundle.trustedCa).toString()
    return pem.split(/(?<=-----END CERTIFICATE-----\n)/).filter(part => part !== '')
  }
  const issuerOf = (identity: SpiffeId) => {
    const item = manager.current({ kind: 'identity', identity })
    assert.ok(item?.kind === 'certificate')
    return new X509Certificate(item.certificateChain).issuer
  }
  const close = () => manager[Symbol.asyncDispose]()
  return { clock, ca, manager, events, count, until, roots, issuerOf, [Symbol.asyncDispose]: close }
}

async function addAll(manager: SecretManager): Promise<void> {
  for (const identity of identities) manager.add(identity)
  await Promise.all(identities.map(identity => manager.get({ kind: 'identity', identity }, { signal: never })))
}

/** Goes from one deadline to the next, and waits for what begins at it: the clock must not run past a request in flight. */
async function renewUntil({ clock, manager, count }: Awaited<ReturnType<typeof setUp>>, issued: number): Promise<void> {
  while (count('issued') < issued) {
    const [next = clock.now()] = clock.deadlines()
    await clock.advance(Math.max(next - clock.now(), 0))
    while (manager.entries().some(({ renewAt }) => renewAt === undefined)) await turnOfTheLoop()
  }
}

test('a new root is pushed as old ∪ new at once, leaves follow spread out after the settle time, the old root is removed last', async () => {
  await using bench = await setUp()
  const { clock, ca, manager, until, count, roots, issuerOf } = bench
  await addAll(manager)
  const [oldRoot] = ca.roots
  const pushed: number[] = []
  manager.watch({ kind: 'bundle', trustDomain: 'cluster.local' }, () => pushed.push(roots().length))

  await ca.addRoot()
  await until(() => pushed.length === 1)
  assert.deepEqual(pushed, [2])
  assert.ok(identities.every(identity => issuerOf(identity) === 'CN=root 1'))

  await clock.advance(SETTLE - 1)
  assert.equal(count('issued'), 5, 'no leaf moved before the settle time')
  const start = clock.now()
  const times: number[] = []
  manager.watch({ kind: 'identity', identity: identities[0] ?? 'spiffe://x/y' }, () => times.push(clock.now()))
  await clock.advance(1)
  await until(() => count('issued') === 6)
  await renewUntil(bench, 10)
  assert.ok(identities.every(identity => issuerOf(identity) === 'CN=root 2'))
  assert.ok((times[0] ?? 0) >= start)
  assert.equal(roots().length, 2, 'the old root stays while the CA lists it')

  ca.dropOldRoots()
  await clock.advance(0)
  assert.equal(roots().length, 2, 'peers get the settle time')
  await clock.advance(SETTLE)
  assert.deepEqual(roots(), ca.roots)
  assert.ok(!roots().includes(oldRoot ?? ''))
})

test('a root that the CA drops while leaves under it are in use stays until they are replaced', async () => {
  await using bench = await setUp()
  const { clock, ca, manager, until, count, roots } = bench
  await addAll(manager)
  await ca.addRoot()
  await until(() => count('roots-changed') === 2)
  ca.dropOldRoots()
  await clock.advance(SETTLE - 1)
  assert.equal(roots().length, 2)
  await renewUntil(bench, 10)
  await clock.advance(2 * SETTLE)
  assert.deepEqual(roots(), ca.roots)
})

test('a leaf under a root that nobody knew waits for the settle time; the bundle goes first', async () => {
  // A CA that reports roots only beside its certificates, as Istio's does.
  await using bench = await setUp({}, ca => Object.assign(ca, { trustBundle: undefined, subscribe: undefined }))
  const { clock, ca, manager, until, events, count, roots, issuerOf } = bench
  const [identity = 'spiffe://x/y'] = identities
  manager.add(identity)
  await until(() => count('issued') === 1)
  await ca.addRoot()
  const due = manager.entries()[0]?.renewAt ?? 0
  await clock.advance(due - clock.now())
  await until(() => count('served-later') === 1)
  assert.equal(events.findLast(({ event }) => event.kind === 'served-later')?.event.kind, 'served-later')
  assert.equal(roots().length, 2)
  assert.equal(issuerOf(identity), 'CN=root 1')
  await clock.advance(SETTLE)
  assert.equal(issuerOf(identity), 'CN=root 2')
})

test('the same roots again, in another order, push nothing', async () => {
  await using bench = await setUp()
  const { ca, manager, until, count, clock } = bench
  await addAll(manager)
  await ca.addRoot()
  await until(() => count('roots-changed') === 2)
  const roots = ca.roots.toReversed()
  ca.trustBundle = () => Promise.resolve([...roots, ...roots])
  ca.dropOldRoots()
  await clock.advance(0)
  assert.equal(count('roots-changed'), 2)
})

test('roots that cannot be fetched are requested again, and certificates follow once they are there', async () => {
  await using bench = await setUp({}, ca => {
    const { answer } = ca
    const listed = ca.trustBundle.bind(ca)
    let calls = 0
    ca.trustBundle = () => (++calls <= 2 ? Promise.reject(new CAError('unavailable', 'not yet')) : listed())
    ca.answer = async (request, sign) => ({ chain: (await answer(request, sign)).chain })
  })
  const { manager, until, count, clock, roots } = bench
  const [identity = 'spiffe://x/y'] = identities
  manager.add(identity)
  for (let step = 0; step < 10 && count('issued') === 0; step++) {
    const before = bench.events.length
    await clock.advance(1_000)
    await until(() => bench.events.length > before || count('issued') > 0 || clock.deadlines().length > 0)
    await turnOfTheLoop()
  }
  await until(() => count('issued') === 1)
  assert.equal(roots().length, 1)
})

test('a CA that lists no good root keeps the old bundle', async () => {
  await using bench = await setUp()
  const { ca, manager, until, count, roots } = bench
  await addAll(manager)
  const before = roots()
  ca.trustBundle = () => Promise.resolve(['junk'])
  ca.dropOldRoots()
  await until(() => count('ca-error') === 1)
  assert.deepEqual(roots(), before)
})

test('a list that lacks the roots of a CA which has not answered yet gives nothing up', async () => {
  await using bench = await setUp()
  const { clock, ca, manager, until, count, roots } = bench
  await addAll(manager)
  await ca.addRoot()
  await until(() => count('roots-changed') === 2)
  const partial = Object.assign(ca, { isListPartial: true })
  ca.dropOldRoots()
  await clock.advance(3 * SETTLE)
  assert.equal(roots().length, 2)
  partial.isListPartial = false
  ca.changeRoots()
  await renewUntil(bench, 10)
  await clock.advance(3 * SETTLE)
  assert.deepEqual(roots(), ca.roots)
})

test('roots that cannot be had are asked for again though no certificate is wanted', async () => {
  let calls = 0
  await using bench = await setUp({}, ca => {
    const listed = ca.trustBundle.bind(ca)
    ca.trustBundle = () => (++calls === 1 ? Promise.reject(new CAError('unavailable', 'not yet')) : listed())
  })
  const { until, count, clock, roots } = bench
  await until(() => count('retry-planned') === 1)
  await clock.advance(1_000)
  await until(() => count('roots-changed') === 1)
  assert.equal(roots().length, 1)
})

test('a CA that changed its root since it listed its roots is asked again before its answer is refused', async () => {
  await using bench = await setUp({}, ca => {
    Object.assign(ca, { subscribe: undefined })
    ca.answer = async (request, sign) => ({ chain: (await sign(request)).chain })
  })
  const { ca, clock, manager, until, count, roots } = bench
  const [identity = 'spiffe://x/y'] = identities
  await until(() => count('roots-changed') === 1)
  await ca.addRoot()
  assert.equal(roots().length, 1, 'nobody notified')
  manager.add(identity)
  await until(() => count('issued') === 1)
  assert.equal(roots().length, 2)
  assert.equal(clock.deadlines().length > 0, true)
})

test('a change that is reported while the list is under way leads to another look after it', async () => {
  await using bench = await setUp()
  const { ca, clock, until, count, roots } = bench
  await until(() => count('roots-changed') === 1)
  const go = Promise.withResolvers<void>()
  let asked = 0
  ca.trustBundle = async () => {
    asked++
    const listed = ca.roots
    await go.promise
    return listed
  }
  await ca.addRoot()
  await clock.advance(0)
  assert.equal(asked, 1)
  await ca.addRoot()
  await ca.addRoot()
  go.resolve()
  await clock.advance(0)
  assert.deepEqual(roots().toSorted(), ca.roots.toSorted())
  assert.equal(asked, 2)
})

test('a certificate that was under way while a root came is renewed again, after the settle time', async () => {
  await using bench = await setUp()
  const { ca, clock, manager, until, count, issuerOf } = bench
  const [identity = 'spiffe://x/y'] = identities
  manager.add(identity)
  await until(() => count('issued') === 1)
  const signed = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  ca.answer = async (request, sign) => {
    const answer = await sign(request)
    signed.resolve()
    await go.promise
    return answer
  }
  const due = manager.entries()[0]?.renewAt ?? 0
  await clock.advance(due - clock.now())
  await signed.promise
  await clock.advance(1)
  await ca.addRoot()
  await until(() => count('roots-changed') === 2)
  ca.answer = (request, sign) => sign(request)
  go.resolve()
  await until(() => count('issued') === 2)
  await clock.advance(SETTLE - 1)
  assert.equal(count('csr-sent'), 2, 'not before peers know the root')
  await clock.advance(1)
  await until(() => issuerOf(identity) === 'CN=root 2')
})

test('a CA that signs under a root that it does not list makes no hot loop', async () => {
  await using bench = await setUp({ ttlSeconds: 5, rotation: { settleMs: 0 }, random: () => 0 })
  const { ca, clock, manager, until, count } = bench
  await addAll(manager)
  const [oldRoot] = ca.roots
  const old = ca.newestRoot()
  await ca.addRoot()
  await until(() => count('roots-changed') === 2)
  ca.answer = async (request, sign) => ({ ...(await sign(request, { issuer: old })), roots: [oldRoot ?? ''] })
  ca.dropOldRoots()
  await clock.advance(0)
  const [entry] = manager.entries()
  const due = entry?.renewAt ?? 0
  const issued = count('issued')
  await clock.advance(Math.max(due - clock.now(), 0))
  await until(() => count('issued') > issued)
  for (const { renewAt } of manager.entries())
    assert.ok(renewAt === undefined || renewAt >= clock.now() || renewAt >= due)
  const next = bench.events.findLast(({ event }) => event.kind === 'issued')?.event
  assert.ok(next?.kind === 'issued')
  const planned = manager.entries().find(({ secret }) => secret?.serialNumber === next.serialNumber)?.renewAt ?? 0
  assert.ok(planned >= clock.now() + 1_000, `planned ${planned - clock.now()} ms from now`)
})

/** Roots that the CA or an operator has revoked: believed at once, through the whole manager. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Bench } from '../../test/manager-bench.ts'
import { Restarts } from '../../test/restarts.ts'
import type { RootListener, RootSource } from '../contract/root-source.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { makeCrl, makeIssuer, type TestCA } from '../testing/test-ca.ts'

const SETTLE = 10_000
const rotation = { settleMs: SETTLE }
const names = Array.from({ length: 4 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/default/sa/sa-${index}`)

/** As a SPIFFE Workload API: what is missing from its list is revoked. */
const revoking = { rotation, revokesMissingRoots: true }
/** As Istio's CA: roots come beside certificates only. */
const withoutList = (ca: TestCA) => void Object.assign(ca, { trustBundle: undefined, subscribe: undefined })

const rootsOf = ({ manager }: Bench) => manager.bundles()[0]?.roots.map(({ certificate }) => certificate.subject)
const issuersOf = (bench: Bench) =>
  new Set(names.map(name => new X509Certificate(bench.served(name)?.certificateChain ?? '').issuer))
const fingerprintOf = (pem: string | undefined) =>
  new X509Certificate(pem ?? '').fingerprint256.replaceAll(':', '').toLowerCase()

class CrlFile implements RootSource {
  readonly trustDomain = 'cluster.local'
  readonly name = 'crl.pem'
  #listener: RootListener | undefined
  #text: string | undefined

  open(listener: RootListener): Disposable {
    this.#listener = listener
    if (this.#text !== undefined) listener.listed([this.#text])
    return { [Symbol.dispose]() {} }
  }

  write(text: string): void {
    this.#text = text
    this.#listener?.listed([text])
  }
}

/** Lets what is due now happen, without time passing. */
async function now({ clock, manager }: Bench): Promise<void> {
  for (let turn = 0; turn < 20; turn++) {
    await clock.advance(0)
    do await setImmediate()
    while (manager.entries().some(({ renewAt }) => renewAt === undefined))
  }
}

async function pass(bench: Bench, ms: number): Promise<void> {
  const end = bench.clock.now() + ms
  for (;;) {
    await now(bench)
    if (bench.clock.now() >= end) return
    const next = bench.clock.deadlines().find(time => time > bench.clock.now()) ?? end
    await bench.clock.advance(Math.min(next, end) - bench.clock.now())
  }
}

async function started(): Promise<Bench> {
  const bench = await Bench.create(revoking)
  for (const name of names) await bench.add(name)
  await pass(bench, 60_000)
  return bench
}

for (const phase of ['announced', 'trusted'] as const)
  test(`a root that the CA has revoked is out at once, and its leaves are replaced at once, while the next one is ${phase}`, async () => {
    await using bench = await started()
    const { ca } = bench
    const old = ca.newestRoot()
    ca.answer = (request, sign) => sign(request, { issuer: old })
    await ca.addRoot()
    await pass(bench, phase === 'trusted' ? 2 * SETTLE : 0)
    assert.deepEqual([...issuersOf(bench)], ['CN=root 1'])
    ca.answer = (request, sign) => sign(request)
    ca.dropOldRoots()
    await now(bench)
    assert.deepEqual(rootsOf(bench), ['CN=root 2'])
    assert.deepEqual([...issuersOf(bench)], ['CN=root 2'])
    assert.equal(bench.last('root-phase').reason, 'the CA has revoked it')
    assert.equal(bench.count('withdrawn'), 0)
  })

test('a leaf that waits for its root to be known is served when the one in use is under a revoked root', async () => {
  await using bench = await started()
  const { ca, manager } = bench
  await ca.addRoot()
  for (const name of names) manager.renew(name)
  await now(bench)
  assert.equal(bench.count('served-later'), names.length)
  ca.answer = () => new Promise(() => {})
  ca.dropOldRoots()
  await now(bench)
  assert.deepEqual([...issuersOf(bench)], ['CN=root 2'])
})

test('the last root stays, and so does one that an operator holds', async () => {
  await using bench = await started()
  const { ca, manager } = bench
  const [first] = ca.roots
  await ca.addRoot()
  await pass(bench, 600_000)
  manager.changeRoot('hold', fingerprintOf(first))
  ca.dropOldRoots()
  await now(bench)
  assert.deepEqual(rootsOf(bench), ['CN=root 1', 'CN=root 2'])
  manager.changeRoot('resume', fingerprintOf(first))
  await now(bench)
  assert.deepEqual(rootsOf(bench), ['CN=root 2'])
  ca.trustBundle = () => Promise.resolve([])
  ca.changeRoots()
  await now(bench)
  assert.deepEqual(rootsOf(bench), ['CN=root 2'])
})

test('a root that was revoked while the agent was down is out as soon as the CA has listed its roots', async () => {
  await using restarts = await Restarts.create()
  const { ca } = restarts
  {
    await using run = await restarts.start(revoking)
    await run.bench.add(names[0] ?? 'spiffe://x/y')
    await ca.addRoot()
    await pass(run.bench, 600_000)
    assert.deepEqual(rootsOf(run.bench), ['CN=root 1', 'CN=root 2'])
  }
  ca.dropOldRoots()
  await using run = await restarts.start(revoking)
  assert.deepEqual(rootsOf(run.bench), ['CN=root 1', 'CN=root 2'], 'as it was stored')
  await now(run.bench)
  assert.deepEqual(rootsOf(run.bench), ['CN=root 2'])
})

test('a root that an operator drops leaves once no leaf is under it, at once, and answers do not bring it back', async () => {
  await using restarts = await Restarts.create()
  const { ca } = restarts
  withoutList(ca)
  const [first] = ca.roots
  const [web = 'spiffe://x/y'] = names
  {
    await using run = await restarts.start({ rotation })
    const { bench } = run
    for (const name of names) await bench.add(name)
    const old = ca.newestRoot()
    await ca.addRoot()
    ca.answer = (request, sign) => sign(request, { issuer: old })
    await pass(bench, 86_400_000)
    assert.deepEqual(rootsOf(bench), ['CN=root 1', 'CN=root 2'])
    assert.equal(bench.manager.rotations()[0]?.roots[0]?.isListed, true)
    ca.answer = (request, sign) => sign(request)
    bench.manager.changeRoot('drop', fingerprintOf(first))
    await now(bench)
    assert.deepEqual([...issuersOf(bench)], ['CN=root 2'])
    assert.deepEqual(rootsOf(bench), ['CN=root 2'])
    const issued = bench.count('issued')
    bench.manager.renew(web)
    await pass(bench, 2_000)
    assert.ok(bench.count('issued') > issued)
    assert.deepEqual(rootsOf(bench), ['CN=root 2'], 'the answer has both')
  }
  await using run = await restarts.start({ rotation })
  await run.bench.add(web)
  run.bench.manager.renew(web)
  await pass(run.bench, 2_000)
  assert.equal(run.bench.count('issued'), 1)
  assert.deepEqual(rootsOf(run.bench), ['CN=root 2'])
})

test('a root that a revocation list of its issuer names is out at once, and neither the list of the CA nor an answer brings it back', async () => {
  await using bench = await started()
  const { ca, clock, manager } = bench
  const old = ca.newestRoot()
  await ca.addRoot()
  await pass(bench, 2 * SETTLE)
  const file = new CrlFile()
  manager.useCrlSources([file])
  const dates = { thisUpdate: clock.now(), nextUpdate: clock.now() + 86_400_000 }
  const write = async (...serialNumbers: readonly string[]) => file.write(await makeCrl(old, serialNumbers, dates))
  const { serialNumber } = new X509Certificate(old.pem)
  await write('4a4a')
  await now(bench)
  assert.deepEqual(rootsOf(bench), ['CN=root 1', 'CN=root 2'])
  await write(serialNumber)
  await now(bench)
  assert.deepEqual(rootsOf(bench), ['CN=root 2'])
  assert.deepEqual([...issuersOf(bench)], ['CN=root 2'])
  assert.equal(bench.last('root-phase').reason, 'a revocation list of its issuer names it')
  ca.changeRoots()
  manager.renew(names[0] ?? 'spiffe://x/y')
  await pass(bench, 2_000)
  assert.deepEqual(rootsOf(bench), ['CN=root 2'])
})

test('a root is not revoked by the list of another root of the same name', async () => {
  await using bench = await started()
  const { ca, clock, manager } = bench
  const [first = ''] = ca.roots
  const namesake = await makeIssuer('CN=root 1', clock.now())
  ca.trustBundle = () => Promise.resolve([first, namesake.pem])
  ca.changeRoots()
  const file = new CrlFile()
  manager.useCrlSources([file])
  const { serialNumber } = new X509Certificate(first)
  file.write(await makeCrl(namesake, [serialNumber], { thisUpdate: clock.now(), nextUpdate: clock.now() + 86_400_000 }))
  await now(bench)
  assert.deepEqual(rootsOf(bench), ['CN=root 1', 'CN=root 1'])
})

test('the last root stays over a restart too, though a revocation list names it, and goes when another one is there', async () => {
  await using restarts = await Restarts.create()
  const { ca, clock } = restarts
  const [web = 'spiffe://x/y'] = names
  const root = ca.newestRoot()
  const file = new CrlFile()
  const dates = { thisUpdate: clock.now(), nextUpdate: clock.now() + 86_400_000 }
  const options = { rotation, crlSources: [file] }
  {
    await using run = await restarts.start(options)
    await run.bench.add(web)
    file.write(await makeCrl(root, [new X509Certificate(root.pem).serialNumber], dates))
    await now(run.bench)
    assert.deepEqual(rootsOf(run.bench), ['CN=root 1'])
  }
  await using run = await restarts.start(options)
  await run.bench.add(web)
  assert.deepEqual(rootsOf(run.bench), ['CN=root 1'])
  await ca.addRoot()
  await now(run.bench)
  assert.deepEqual(rootsOf(run.bench), ['CN=root 2'])
  assert.equal(run.bench.count('withdrawn'), 0)
})

test('where a revocation list names the only root, from the first start on, the refusal of certificates says so', async () => {
  await using restarts = await Restarts.create()
  const { ca, clock } = restarts
  const root = ca.newestRoot()
  const file = new CrlFile()
  const dates = { thisUpdate: clock.now(), nextUpdate: clock.now() + 86_400_000 }
  file.write(await makeCrl(root, [new X509Certificate(root.pem).serialNumber], dates))
  await using run = await restarts.start({ rotation, crlSources: [file] })
  const { manager } = run.bench
  manager.add('spiffe://cluster.local/ns/default/sa/web')
  await now(run.bench)
  assert.match(manager.entries()[0]?.lastFailure?.message ?? '', /a revocation list of its issuer names it/)
})

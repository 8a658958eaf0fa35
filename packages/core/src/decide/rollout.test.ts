/** A root rotation through the whole manager: announced, followed in turn, retired. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Bench } from '../../test/manager-bench.ts'
import { Restarts } from '../../test/restarts.ts'
import type { SecretManagerOptions } from '../secret-manager-options.ts'
import type { TrustBundleSecret } from '../secrets/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { TestCA } from '../testing/test-ca.ts'
import type { StreamReceipts } from '../trust/bundle-receipts.ts'

const SETTLE = 10_000
const ACK_WAIT = 60_000
const OVERLAP = 3_600_000
const DAY = 86_400_000
const rotation = { settleMs: SETTLE }
const names = Array.from({ length: 4 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/default/sa/sa-${index}`)
const [WEB = 'spiffe://x/y'] = names

function bundleOf({ manager }: Bench): TrustBundleSecret {
  const item = manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
  assert.ok(item?.kind === 'bundle')
  return item
}

/** A client that accepts the bundle of now, and from then on what the test says. */
function client(bench: Bench, name: string): StreamReceipts {
  const stream = bench.manager.receipts.open(() => name)
  stream.sent(bundleOf(bench))
  stream.accepted(bundleOf(bench))
  return stream
}

function issuerOf(bench: Bench, identity: SpiffeId): string {
  return new X509Certificate(bench.served(identity)?.certificateChain ?? '').issuer
}

const phases = (bench: Bench) => bench.events.flatMap(({ event }) => (event.kind === 'root-phase' ? [event.phase] : []))

/** As Istio's CA: roots come beside certificates only. */
const withoutList = (ca: TestCA) => void Object.assign(ca, { trustBundle: undefined, subscribe: undefined })

/** Time passes, and no request is in flight when it goes on: signing takes real time. */
async function pass(bench: Bench, ms: number): Promise<void> {
  const { clock, manager } = bench
  const end = clock.now() + ms
  const isBusy = () => manager.entries().some(({ renewAt }) => renewAt === undefined)
  for (;;) {
    await clock.advance(0)
    while (isBusy()) await setImmediate()
    if (clock.now() >= end) return
    const [next = end] = clock.deadlines()
    // The last answer may have planned a request for now.
    if (next <= clock.now()) continue
    await clock.advance(Math.min(next, end) - clock.now())
  }
}

/** The CA signs under a new root, and has listed it where it has a list. */
async function announced(bench: Bench): Promise<void> {
  const { ca } = bench
  const before = bench.count('roots-changed')
  await ca.addRoot()
  if ('trustBundle' in ca && ca.trustBundle !== undefined) await bench.until('roots-changed', before + 1)
}

async function started(options: Partial<SecretManagerOptions> = {}, prepare?: (ca: TestCA) => void): Promise<Bench> {
  const bench = await Bench.create({ rotation, ttlSeconds: DAY / 1_000, ...options }, prepare)
  for (const name of names) await bench.add(name)
  return bench
}

test('one identity asks whether the CA signs under the new root; when it does, the others follow: streamed ones first, each by what is left', async () => {
  await using bench = await Bench.create({ rotation, random: () => 0 })
  const { clock, ca, manager } = bench
  for (const name of names) {
    await bench.add(name)
    await pass(bench, 60_000)
  }
  using _streamed = manager.watch({ kind: 'identity', identity: names[2] ?? WEB }, () => {})
  const old = ca.newestRoot()
  ca.answer = (request, sign) => sign(request, { issuer: old })
  await announced(bench)
  await pass(bench, SETTLE)
  await bench.until('issued', 5)
  assert.equal(ca.requests.at(-1)?.identity, names[2], 'the streamed one asks')
  await pass(bench, 600_000)
  assert.equal(bench.count('issued'), 5, 'the CA does not sign under it yet')

  ca.answer = (request, sign) => sign(request)
  const dues = manager.entries().map(({ renewAt }) => renewAt ?? 0)
  await pass(bench, Math.min(...dues) - clock.now())
  assert.equal(bench.count('issued'), 6)
  const [first] = names.filter(name => issuerOf(bench, name) === 'CN=root 2')
  await pass(bench, 600_000)
  assert.deepEqual(
    ca.requests.slice(6).map(({ identity }) => identity),
    [...new Set([names[2], ...names])].filter(name => name !== first),
  )
})

test('no leaf under the new root is served until every client has accepted it; one that rejects it is named', async () => {
  await using bench = await started({}, withoutList)
  using a = client(bench, 'a')
  using b = client(bench, 'b')
  await announced(bench)
  await bench.toNextDue(WEB)
  await bench.until('served-later', 1)
  a.accepted(bundleOf(bench))
  b.rejected(bundleOf(bench), 'no such curve')
  await pass(bench, 10 * ACK_WAIT)
  assert.equal(issuerOf(bench, WEB), 'CN=root 1')
  assert.match(bench.last('root-phase').reason, /^b rejects it: no such curve$/)
  b.accepted(bundleOf(bench))
  await pass(bench, 0)
  assert.equal(issuerOf(bench, WEB), 'CN=root 2')
  assert.equal(bench.last('root-phase').phase, 'trusted')
})

test('a certificate that ends is replaced although a client rejects the root: before it ends, not after', async () => {
  await using bench = await started({ ttlSeconds: 3_600 }, withoutList)
  const { clock } = bench
  using b = client(bench, 'b')
  const end = bench.served(WEB)?.notAfter ?? 0
  await announced(bench)
  await bench.toNextDue(WEB)
  await bench.until('served-later', 1)
  b.rejected(bundleOf(bench), 'no')
  const left = end - clock.now()
  await pass(bench, left * 0.7)
  assert.equal(issuerOf(bench, WEB), 'CN=root 1')
  await pass(bench, left * 0.25)
  assert.equal(issuerOf(bench, WEB), 'CN=root 2')
  assert.equal(bench.count('withdrawn'), 0)
})

test('the old root stays for the overlap after the CA gave it up and the last leaf under it was replaced', async () => {
  await using bench = await started()
  const { ca } = bench
  await announced(bench)
  await pass(bench, SETTLE)
  await bench.until('issued', 5)
  await pass(bench, 600_000)
  await bench.until('issued', 8)
  const [oldRoot] = bench.manager.bundles()[0]?.roots ?? []
  ca.dropOldRoots()
  await pass(bench, OVERLAP - 1)
  assert.ok(bundleOf(bench).has(oldRoot?.fingerprint ?? ''))
  await pass(bench, 1)
  assert.equal(bundleOf(bench).has(oldRoot?.fingerprint ?? ''), false)
  assert.deepEqual(phases(bench), ['announcing', 'trusted', 'removed'])
})

test('a CA that gives the new root up again half way: leaves stay where they are, and the root leaves', async () => {
  await using bench = await started()
  const { ca } = bench
  const [first = ''] = ca.roots
  const old = ca.newestRoot()
  await announced(bench)
  await pass(bench, SETTLE / 2)
  ca.trustBundle = () => Promise.resolve([first])
  ca.answer = (request, sign) => sign(request, { issuer: old })
  await bench.manager.get({ kind: 'identity', identity: WEB }, { signal: new AbortController().signal })
  ca.subscribe(() => {})
  ca.dropOldRoots()
  await pass(bench, SETTLE)
  for (const name of names) assert.equal(issuerOf(bench, name), 'CN=root 1')
  assert.equal(bench.count('issued'), 4, 'nothing had to be renewed')
  await pass(bench, OVERLAP)
  assert.equal(bench.manager.bundles()[0]?.roots.length, 1)
})

test('leaves that came under a root which the CA gave up before it was trusted are replaced, not served', async () => {
  await using bench = await started()
  const { clock, ca } = bench
  const [first = ''] = ca.roots
  const old = ca.newestRoot()
  const next = bench.manager.entries()[0]?.renewAt ?? 0
  await pass(bench, next - clock.now() - SETTLE / 2)
  await announced(bench)
  await pass(bench, SETTLE / 2)
  await bench.until('served-later', 1)
  ca.trustBundle = () => Promise.resolve([first])
  ca.answer = (request, sign) => sign(request, { issuer: old })
  ca.dropOldRoots()
  await pass(bench, 601_000)
  await bench.until('issued', 6)
  for (const name of names) assert.equal(issuerOf(bench, name), 'CN=root 1')
  assert.equal(bench.count('withdrawn'), 0)
})

test('two rotations at once: leaves go to the newest root once that is known', async () => {
  await using bench = await started()
  await announced(bench)
  await pass(bench, SETTLE / 2)
  await announced(bench)
  await pass(bench, SETTLE / 2)
  await bench.until('served-later', 1)
  for (const name of names) assert.equal(issuerOf(bench, name), 'CN=root 1', 'root 3 is not known yet')
  await pass(bench, SETTLE / 2)
  await pass(bench, 600_000)
  await bench.until('issued', 8)
  for (const name of names) assert.equal(issuerOf(bench, name), 'CN=root 3')
})

test('leaves that all came under a root before anybody announced it are served together, once it is trusted', async () => {
  await using bench = await started({}, withoutList)
  const { clock } = bench
  await announced(bench)
  const dues = bench.manager.entries().map(({ renewAt }) => renewAt ?? 0)
  using silent = client(bench, 'silent')
  await pass(bench, Math.min(...dues) - clock.now())
  await bench.until('served-later', 1)
  assert.equal(bundleOf(bench).has(bench.last('root-phase').fingerprint), true, 'the bundle has it at once')
  await pass(bench, ACK_WAIT)
  assert.equal(bench.last('root-phase').reason, '1 client said nothing')
  await pass(bench, 600_000)
  await bench.until('issued', 8)
  for (const name of names) assert.equal(issuerOf(bench, name), 'CN=root 2')
  void silent
})

test('after a restart an announced root is announced again, a trusted one is not, and the overlap goes on', async () => {
  await using restarts = await Restarts.create()
  const { ca } = restarts
  {
    await using run = await restarts.start({ rotation })
    await run.bench.add(WEB)
    await announced(run.bench)
    await pass(run.bench, SETTLE / 2)
    assert.deepEqual(phases(run.bench), ['announcing'])
  }
  {
    await using run = await restarts.start({ rotation })
    await run.bench.add(WEB)
    assert.deepEqual(
      run.store.roots.map(({ isAnnouncing }) => isAnnouncing),
      [undefined, true],
    )
    await pass(run.bench, SETTLE - 1)
    assert.deepEqual(phases(run.bench), ['announcing'])
    assert.equal(issuerOf(run.bench, WEB), 'CN=root 1')
    await pass(run.bench, 1)
    await run.bench.until('issued', 1)
    assert.equal(issuerOf(run.bench, WEB), 'CN=root 2')
    ca.dropOldRoots()
    await pass(run.bench, OVERLAP / 2)
  }
  await using run = await restarts.start({ rotation })
  await run.bench.add(WEB)
  assert.deepEqual(phases(run.bench), [])
  await pass(run.bench, OVERLAP / 2 - 1)
  assert.equal(run.bench.manager.bundles()[0]?.roots.length, 2)
  await pass(run.bench, 1)
  assert.equal(run.bench.manager.bundles()[0]?.roots.length, 1)
})

test('after a restart a root that answers name stays, and one that they have left out leaves at its time', async () => {
  await using restarts = await Restarts.create()
  const { ca, clock } = restarts
  withoutList(ca)
  const lifetime = 10 * SETTLE
  const options = { rotation: { ...rotation, overlapMs: lifetime / 2 }, ttlSeconds: lifetime / 1_000 }
  const count = (bench: Bench) => bench.manager.bundles()[0]?.roots.length
  await ca.addRoot()
  {
    await using run = await restarts.start(options)
    await run.bench.add(WEB)
  }
  let leftOutAt = 0
  {
    await using run = await restarts.start(options)
    await run.bench.add(WEB)
    await pass(run.bench, 5 * lifetime)
    assert.equal(count(run.bench), 2, 'every answer has both')
    ca.dropOldRoots()
    run.bench.manager.renew(WEB)
    await run.bench.until('issued', run.bench.count('issued') + 1)
    leftOutAt = clock.now()
  }
  await using run = await restarts.start(options)
  await run.bench.add(WEB)
  await pass(run.bench, leftOutAt + lifetime - 1 - clock.now())
  assert.equal(count(run.bench), 2, 'peers may have certificates under it that are as old as the answer')
  await pass(run.bench, 1)
  assert.equal(count(run.bench), 1)
})

test('after a restart half way through the renewals, the rest of the leaves follow', async () => {
  await using restarts = await Restarts.create()
  {
    await using run = await restarts.start({ rotation })
    for (const name of names) await run.bench.add(name)
    await announced(run.bench)
    await pass(run.bench, SETTLE)
    await run.bench.until('issued', 5)
    assert.equal(names.filter(name => issuerOf(run.bench, name) === 'CN=root 2').length, 1)
  }
  await using run = await restarts.start({ rotation })
  for (const name of names) await run.bench.add(name)
  await pass(run.bench, SETTLE + 600_000)
  await pass(run.bench, SETTLE + 600_000)
  for (const name of names) assert.equal(issuerOf(run.bench, name), 'CN=root 2')
})

test('an operator sees each phase, who has not accepted the root, and how many certificates are left', async () => {
  await using bench = await started()
  const { ca, manager } = bench
  const status = () => manager.rotations()[0]
  const rows = () =>
    status()?.roots.map(({ phase, leaves, waiting, isListed }) => ({ phase, leaves, waiting, isListed }))
  assert.equal(status()?.phase, 'steady')
  using web = client(bench, 'web')
  using api = client(bench, 'api')
  await announced(bench)
  web.rejected(bundleOf(bench), 'no such curve')
  assert.equal(status()?.phase, 'announcing')
  assert.deepEqual(status()?.roots[1]?.waitsFor, [{ client: 'web', reason: 'no such curve' }, { client: 'api' }])
  assert.deepEqual(rows(), [
    { phase: 'trusted', leaves: 4, waiting: 0, isListed: true },
    { phase: 'announcing', leaves: 0, waiting: 2, isListed: true },
  ])
  for (const stream of [web, api]) stream.accepted(bundleOf(bench))
  await pass(bench, SETTLE)
  assert.equal(status()?.phase, 'renewing')
  await pass(bench, 600_000)
  assert.deepEqual([status()?.phase, rows()?.map(({ leaves }) => leaves)], ['steady', [0, 4]])
  ca.dropOldRoots()
  await pass(bench, 0)
  assert.equal(status()?.phase, 'retiring')
  const leavesAt = status()?.roots[0]?.leavesAt ?? 0
  await pass(bench, leavesAt - bench.clock.now())
  assert.equal(status()?.roots.length, 1)
})

test('a held root serves no certificate and is not removed; resume goes on, also past a client that rejects it', async () => {
  await using bench = await started()
  const { ca, manager } = bench
  using web = client(bench, 'web')
  await announced(bench)
  const [old = '', next = ''] = manager.rotations()[0]?.roots.map(({ fingerprint }) => fingerprint) ?? []
  manager.changeRoot('hold', next.slice(0, 8).toUpperCase())
  web.accepted(bundleOf(bench))
  await pass(bench, 2 * ACK_WAIT)
  assert.equal(manager.rotations()[0]?.roots[1]?.phase, 'held')
  for (const name of names) assert.equal(issuerOf(bench, name), 'CN=root 1')
  manager.changeRoot('resume', next)
  await pass(bench, 600_000)
  for (const name of names) assert.equal(issuerOf(bench, name), 'CN=root 2')
  manager.changeRoot('hold', old)
  ca.dropOldRoots()
  await pass(bench, 2 * OVERLAP)
  assert.equal(bundleOf(bench).has(old), true)
  manager.changeRoot('resume', old)
  await pass(bench, SETTLE)
  assert.equal(bundleOf(bench).has(old), false)
})

test('an operator drops a root: its certificates are replaced, then it leaves without the overlap', async () => {
  await using bench = await started({}, withoutList)
  const { ca, manager } = bench
  const drop = (fingerprint: string) => {
    const result = manager.changeRoot('drop', fingerprint)
    return 'refused' in result ? result.refused : result.done.phase
  }
  const roots = () => manager.rotations()[0]?.roots.map(({ fingerprint }) => fingerprint) ?? []
  const [old = ''] = roots()
  assert.match(drop(old), /no other root/)
  assert.match(drop('abc'), /"abc" names no root\. Write 6 or more/)
  await ca.addRoot()
  const dues = manager.entries().map(({ renewAt }) => renewAt ?? 0)
  await pass(bench, Math.min(...dues) - bench.clock.now() + SETTLE)
  assert.equal(roots().length, 2)
  assert.equal(drop(old), 'retiring')
  await pass(bench, 600_000 + 2 * SETTLE)
  for (const name of names) assert.equal(issuerOf(bench, name), 'CN=root 2')
  assert.deepEqual(roots().includes(old), false)
})

test('a root that the CA lists cannot be dropped: it would come back', async () => {
  await using bench = await started()
  await announced(bench)
  const [old = ''] = bench.manager.rotations()[0]?.roots.map(({ fingerprint }) => fingerprint) ?? []
  const result = bench.manager.changeRoot('drop', old)
  assert.match('refused' in result ? result.refused : '', /lists it, so that it would come back/)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import { Restarts } from '../../test/restarts.ts'
import type { RootListener, RootSource } from '../contract/root-source.ts'
import type { SecretItem } from '../secrets/secret-item.ts'
import { makeIssuer, type TestCA } from '../testing/test-ca.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const START = Date.UTC(2026, 0, 1)
const TEN_YEARS = 10 * 365 * 86_400_000
const HOUR = 3_600_000
const SETTLE = 10_000

/** The list of an operator that a test changes. */
class OperatorList implements RootSource {
  readonly trustDomain: string
  readonly name = 'the list'
  #roots: readonly string[]
  #listener: RootListener | undefined

  constructor(roots: readonly string[], trustDomain = 'cluster.local') {
    this.#roots = roots
    this.trustDomain = trustDomain
  }

  get isOpen(): boolean {
    return this.#listener !== undefined
  }

  open(listener: RootListener): Disposable {
    this.#listener = listener
    if (this.#roots.length > 0) listener.listed(this.#roots)
    return {
      [Symbol.dispose]: () => {
        this.#listener = undefined
      },
    }
  }

  list(...roots: readonly string[]): void {
    this.#roots = roots
    this.#listener?.listed(roots)
  }

  fail(reason: string): void {
    this.#listener?.failed(reason)
  }
}

const ours = await makeIssuer('CN=ours', START)
const theirs = await makeIssuer('CN=theirs', START)
const short = await makeIssuer('CN=ends in an hour', START - TEN_YEARS + HOUR)
const expired = await makeIssuer('CN=has ended', START - TEN_YEARS - HOUR)
const tomorrow = await makeIssuer('CN=begins tomorrow', START + 24 * HOUR)

function trusted({ manager }: Bench, trustDomain = 'cluster.local'): readonly string[] {
  const item = manager.current({ kind: 'bundle', trustDomain })
  const pushed = item?.kind === 'bundle' ? Buffer.from(item.trustedCa).toString() : ''
  const names = [ours, theirs, short, expired, tomorrow].filter(({ pem }) => pushed.includes(pem))
  const others = pushed.split('BEGIN CERTIFICATE').length - 1 - names.length
  return [...names.map(({ subject }) => subject), ...Array.from({ length: others }, () => 'the CA')]
}

async function withList(list: OperatorList | readonly OperatorList[], prepare?: (ca: TestCA) => void): Promise<Bench> {
  return await Bench.create({ rootSources: [list].flat(), rotation: { settleMs: SETTLE, overlapMs: SETTLE } }, prepare)
}

test("a root that the operator lists is trusted before the CA has listed any, and beside the CA's", async () => {
  const asked = Promise.withResolvers<readonly string[]>()
  await using bench = await withList(new OperatorList([ours.pem]), ca => {
    ca.trustBundle = () => asked.promise
  })
  await bench.until('roots-changed', 1)
  assert.deepEqual(trusted(bench), ['CN=ours'])
  asked.resolve(bench.ca.roots)
  await bench.until('roots-changed', 2)
  assert.deepEqual(trusted(bench), ['CN=ours', 'the CA'])
})

test('no list of the CA removes a root that the operator lists; what the operator takes back goes', async () => {
  const list = new OperatorList([ours.pem, theirs.pem])
  await using bench = await withList(list)
  await bench.add(WEB)
  // The CA has listed it, too.
  list.list(ours.pem, theirs.pem, ...bench.ca.roots)
  await bench.ca.addRoot()
  bench.ca.dropOldRoots()
  await bench.clock.advance(0)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  await bench.clock.advance(2 * SETTLE)
  assert.deepEqual(trusted(bench), ['CN=ours', 'CN=theirs', 'the CA', 'the CA'])
  list.list(ours.pem, theirs.pem)
  await bench.clock.advance(0)
  await bench.clock.advance(SETTLE)
  assert.deepEqual(trusted(bench), ['CN=ours', 'CN=theirs', 'the CA'])
  list.list(theirs.pem)
  await bench.clock.advance(0)
  await bench.clock.advance(SETTLE - 1)
  assert.equal(trusted(bench).length, 3, 'peers get the settle time')
  await bench.clock.advance(1)
  assert.deepEqual(trusted(bench), ['CN=theirs', 'the CA'])
})

test('a root that the CA lists too stays when the operator takes it back', async () => {
  await using bench = await Bench.create({ rotation: { settleMs: SETTLE, overlapMs: SETTLE } })
  await bench.until('roots-changed', 1)
  const list = new OperatorList([...bench.ca.roots, ours.pem])
  await bench.manager.useRootSources([list])
  await bench.manager.useRootSources([])
  assert.equal(list.isOpen, false)
  await bench.clock.advance(SETTLE)
  assert.deepEqual(trusted(bench), ['the CA'])
})

test('leaves follow when the CA names a root that the operator had listed, and not before', async () => {
  await using bench = await Bench.create({ rotation: { settleMs: SETTLE, overlapMs: SETTLE } })
  await bench.add(WEB)
  const next = await makeIssuer('CN=root 2', START)
  const list = new OperatorList([next.pem])
  const planned = bench.manager.entries()[0]?.renewAt ?? 0
  await bench.manager.useRootSources([list])
  await bench.clock.advance(SETTLE)
  assert.equal(bench.manager.entries()[0]?.renewAt, planned)
  const { sign } = bench.ca
  bench.ca.answer = request => sign(request, { issuer: next })
  const roots = [...bench.ca.roots, next.pem]
  bench.ca.trustBundle = () => Promise.resolve(roots)
  bench.ca.dropOldRoots()
  while (bench.count('issued') < 2) await bench.clock.advance(0)
  assert.ok(bench.clock.now() < planned, 'the CA has named it')
  assert.equal(bench.count('served-later'), 0, 'it has settled since the operator listed it')
})

test('a bad root among good ones is left out and reported once, with its source', async () => {
  const list = new OperatorList([ours.pem, 'junk', expired.pem])
  await using bench = await withList(list)
  await bench.until('roots-changed', 2)
  assert.ok(trusted(bench).includes('CN=ours'))
  const { count, source, reason } = bench.last('roots-rejected')
  assert.equal(count, 2)
  assert.equal(source, 'the list')
  assert.match(reason, /not an X\.509 certificate.*expired/)
  list.list(ours.pem, 'junk', expired.pem)
  await bench.clock.advance(0)
  assert.equal(bench.count('roots-rejected'), 1, 'the same fault again is not news')
})

test('a list without a usable root, and one that cannot be read, change nothing and are reported', async () => {
  const list = new OperatorList([ours.pem])
  await using bench = await withList(list)
  await bench.until('roots-changed', 2)
  for (const [roots, reason] of [
    [[], /lists no certificate/],
    [['junk'], /not an X\.509 certificate/],
    [[expired.pem], /expired/],
  ] as const) {
    list.list(...roots)
    await bench.clock.advance(0)
    assert.match(bench.last('roots-unavailable').reason, reason)
  }
  list.fail('the disk is away')
  assert.equal(bench.last('roots-unavailable').reason, 'the disk is away')
  assert.equal(bench.count('roots-unavailable'), 4)
  await bench.clock.advance(24 * HOUR)
  assert.deepEqual(trusted(bench), ['CN=ours', 'the CA'])
})

test('a list that comes while an earlier one is read wins', async () => {
  const list = new OperatorList([])
  await using bench = await withList(list)
  await bench.until('roots-changed', 1)
  list.list(ours.pem)
  list.list(theirs.pem)
  await bench.until('roots-changed', 2)
  await bench.clock.advance(0)
  assert.deepEqual(trusted(bench), ['CN=theirs', 'the CA'])
})

test('a root leaves at its notAfter, though nothing else happens', async () => {
  await using bench = await withList(new OperatorList([short.pem, ours.pem]))
  await bench.until('roots-changed', 2)
  await bench.clock.advance(HOUR - 1)
  assert.ok(trusted(bench).includes('CN=ends in an hour'))
  await bench.clock.advance(1)
  assert.deepEqual(trusted(bench), ['CN=ours', 'the CA'])
})

test('a root that is not valid yet is trusted once it is', async () => {
  await using bench = await withList(new OperatorList([ours.pem, tomorrow.pem]))
  await bench.until('roots-changed', 2)
  assert.deepEqual(trusted(bench), ['CN=ours', 'the CA'])
  await bench.clock.advance(24 * HOUR)
  assert.deepEqual(trusted(bench), ['CN=ours', 'CN=begins tomorrow', 'the CA'])
})

test('several sources of a trust domain are one set, pushed at once; order and repetition make no difference', async () => {
  const lists = [new OperatorList([ours.pem]), new OperatorList([theirs.pem, ours.pem])]
  await using bench = await withList(lists, ca => Object.assign(ca, { trustBundle: undefined, subscribe: undefined }))
  await bench.until('roots-changed', 1)
  lists[1]?.list(ours.pem, theirs.pem, ours.pem)
  await bench.clock.advance(0)
  assert.deepEqual(trusted(bench), ['CN=ours', 'CN=theirs'])
  assert.equal(bench.count('roots-changed'), 1)
})

test('the bundle of another trust domain holds its own roots, and goes when no source lists it', async () => {
  const list = new OperatorList([], 'other.example')
  await using bench = await withList(list)
  const name = { kind: 'bundle', trustDomain: 'other.example' } as const
  assert.ok(bench.manager.knows(name), 'it is waited for')
  const versions: (string | undefined)[] = []
  bench.manager.watch(name, item => versions.push(item?.version))
  list.list(theirs.pem)
  await bench.clock.advance(0)
  assert.deepEqual(trusted(bench, 'other.example'), ['CN=theirs'])
  assert.deepEqual(trusted(bench), ['the CA'])
  assert.ok(bench.manager.holds('spiffe://other.example'))
  await bench.manager.useRootSources([])
  assert.ok(!bench.manager.knows(name))
  assert.equal(versions.length, 2)
  assert.equal(versions[1], undefined)
})

test('the store does not keep what only the operator lists: the next process reads the list', async () => {
  await using restarts = await Restarts.create()
  const list = new OperatorList([ours.pem])
  await using run = await restarts.start({ rootSources: [list] })
  await run.bench.add(WEB)
  assert.equal(trusted(run.bench).length, 2)
  await run[Symbol.asyncDispose]()
  await using next = await restarts.start()
  await next.bench.clock.advance(0)
  assert.deepEqual(trusted(next.bench), ['the CA'])
})

test('the bundles of all trust domains are one secret, which changes with each of them', async () => {
  const lists = [new OperatorList([ours.pem]), new OperatorList([], 'other.example')]
  await using bench = await withList(lists)
  await bench.until('roots-changed', 2)
  const name = { kind: 'all-bundles' } as const
  const shown = (item: SecretItem | undefined) =>
    item?.kind === 'all-bundles' ? item.bundles.map(({ trustDomain }) => trustDomain) : undefined
  const pushed: (readonly string[] | undefined)[] = []
  bench.manager.watch(name, item => pushed.push(shown(item)))
  const before = bench.manager.current(name)
  assert.deepEqual(shown(before), ['cluster.local'])
  assert.equal(
    before?.kind === 'all-bundles' && before.own,
    bench.manager.current({ kind: 'bundle', trustDomain: 'cluster.local' }),
  )
  lists[1]?.list(theirs.pem)
  await bench.clock.advance(0)
  assert.deepEqual([...bench.manager.trustDomains()], ['cluster.local', 'other.example'])
  const both = bench.manager.current(name)
  assert.notEqual(both?.version, before?.version)
  lists[0]?.list(ours.pem, theirs.pem)
  await bench.clock.advance(0)
  await bench.manager.useRootSources(lists.slice(0, 1))
  assert.deepEqual(pushed, [['cluster.local', 'other.example'], ['cluster.local', 'other.example'], ['cluster.local']])
})

test('a source that replaces another takes over its roots until it lists its own: an endpoint answers late, or not at all', async () => {
  const domain = 'other.example'
  const before = new OperatorList([ours.pem, theirs.pem], domain)
  await using bench = await withList(before)
  await bench.until('roots-changed', 2)
  const after = new OperatorList([], domain)
  await bench.manager.useRootSources([after])
  await bench.clock.advance(24 * HOUR)
  assert.deepEqual(trusted(bench, domain), ['CN=ours', 'CN=theirs'])
  after.list(theirs.pem)
  await bench.clock.advance(0)
  await bench.clock.advance(SETTLE)
  assert.deepEqual(trusted(bench, domain), ['CN=theirs'])
})

test('a root that is taken out of the configuration goes, though another source cannot be read', async () => {
  const lists = [new OperatorList([ours.pem]), new OperatorList([])]
  await using bench = await withList(lists)
  await bench.until('roots-changed', 2)
  await bench.manager.useRootSources(lists.slice(1))
  await bench.clock.advance(SETTLE)
  assert.deepEqual(trusted(bench), ['the CA'])
})

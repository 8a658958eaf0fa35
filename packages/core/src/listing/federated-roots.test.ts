/** Roots of other trust domains that the CA lists: trusted while it lists them, beside the operator's roots. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Bench } from '../../test/manager-bench.ts'
import type { RootSource } from '../contract/root-source.ts'
import { makeIssuer } from '../testing/test-ca.ts'

const SETTLE = 10_000
const START = Date.UTC(2026, 0, 1)
const first = await makeIssuer('CN=first', START)
const second = await makeIssuer('CN=second', START)

/** A CA that answers `answer` when it is asked for federated bundles. */
async function start(answer: unknown) {
  let listed = answer
  const bench = await Bench.create({ rotation: { settleMs: SETTLE, overlapMs: SETTLE } }, ca => {
    Object.assign(ca, { federatedBundles: async () => listed })
  })
  const trusted = (trustDomain = 'other.example') => {
    const item = bench.manager.current({ kind: 'bundle', trustDomain })
    const pem = item?.kind === 'bundle' ? Buffer.from(item.trustedCa).toString() : ''
    return [first, second].filter(root => pem.includes(root.pem)).map(({ subject }) => subject)
  }
  return {
    bench,
    list(next: unknown) {
      listed = next
      bench.ca.changeRoots()
    },
    trusted,
    async until(expected: readonly string[], trustDomain?: string) {
      while (trusted(trustDomain).join() !== expected.join()) await setImmediate()
    },
    [Symbol.asyncDispose]: () => bench[Symbol.asyncDispose](),
  }
}

const other = (...roots: readonly { readonly pem: string }[]) =>
  new Map([['other.example', roots.map(({ pem }) => pem)]])

test('a trust domain that the CA federates with is trusted by its list, and no longer when the CA leaves it out', async () => {
  await using ca = await start(other(first))
  await ca.until(['CN=first'])
  assert.deepEqual([...ca.bench.manager.trustDomains()], ['cluster.local', 'other.example'])
  ca.list(other(first, second))
  await ca.until(['CN=first', 'CN=second'])
  ca.list(new Map())
  await ca.until([])
  assert.deepEqual([...ca.bench.manager.trustDomains()], ['cluster.local'])
})

test('what the operator lists for a trust domain stays, whatever the CA lists, and the other way round', async () => {
  await using ca = await start(other(first))
  await ca.until(['CN=first'])
  const source: RootSource = {
    trustDomain: 'other.example',
    name: 'a file',
    open(listener) {
      listener.listed([second.pem])
      return { [Symbol.dispose]() {} }
    },
  }
  await ca.bench.manager.useRootSources([source])
  assert.deepEqual(ca.trusted(), ['CN=first', 'CN=second'])
  ca.list(new Map())
  while (ca.trusted().length > 1) {
    await setImmediate()
    await ca.bench.clock.advance(SETTLE)
  }
  assert.deepEqual(ca.trusted(), ['CN=second'])
})

test('an own list among the federated ones, and an answer that is none, change nothing', async () => {
  await using ca = await start(new Map([['cluster.local', [first.pem]], ...other(second)]))
  await ca.until(['CN=second'])
  assert.deepEqual(ca.trusted('cluster.local'), [])
  for (const answer of [undefined, {}, new Map([['not/a/domain', [first.pem]]]), new Map([['a.example', 'text']])]) {
    ca.list(answer)
    const before = ca.bench.events.length
    while (!ca.bench.events.slice(before).some(({ event }) => event.kind === 'retry-planned')) await setImmediate()
    assert.deepEqual(ca.trusted(), ['CN=second'])
  }
})

test('a CA that federates with more trust domains than are held leaves room for one that the operator names later', async () => {
  const many = Array.from({ length: 150 }, (_, index) => [`t${index}.example`, [first.pem]] as const)
  await using ca = await start(new Map(many))
  await ca.until(['CN=first'], 't49.example')
  const open: RootSource['open'] = listener => {
    listener.listed([second.pem])
    return { [Symbol.dispose]() {} }
  }
  await ca.bench.manager.useRootSources([{ trustDomain: 'partner.example', name: 'a file', open }])
  assert.deepEqual(ca.trusted('partner.example'), ['CN=second'])
})

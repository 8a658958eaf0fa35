/** The identities of pods, by a table of pods as the API server describes them. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { podResource } from '../../test/pod-api-server.ts'
import { podTable, type RulesInit } from '../../test/watched-pods.ts'
import { IdentityUnion } from '../secrets/identity-union.ts'
import { PodIdentities } from './pod-identities.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

function start(t: TestContext, rules: RulesInit = {}) {
  const clock = new FakeClock(0)
  const { pods, problems } = podTable(rules)
  const held = new Map<string, readonly string[] | undefined>()
  const counts = { changes: 0, reviews: 0 }
  const union = new IdentityUnion({
    add: (id, { wish } = {}) => void held.set(id, wish?.dnsNames),
    remove: id => void held.delete(id),
  })
  const identities = new PodIdentities({
    pods,
    clock,
    wish: {},
    onProblem: problem => void problems.push(problem),
    union: {
      replace(source, named) {
        counts.changes++
        return union.replace(source, named)
      },
    },
    secrets: { retry: () => {} },
    sds: { review: () => void counts.reviews++ },
  })
  t.after(() => identities[Symbol.dispose]())
  return { clock, pods, problems, held, counts, union, identities }
}

test('pods of one account share an identity, which is held until the last of them is gone', async t => {
  const { clock, pods, held } = start(t)
  const [first, second, api] = (['web', 'web', 'api'] as const).map((serviceAccount, index) =>
    podResource({ name: `p-${index}`, serviceAccount }),
  )
  pods.replace([first, second, api].map(pod => pods.read(pod)))
  await clock.advance(100)
  assert.deepEqual([...held.keys()].sort(), [API, WEB])
  pods.delete(first)
  await clock.advance(100)
  assert.deepEqual([...held.keys()].sort(), [API, WEB])
  pods.delete(second)
  await clock.advance(100)
  assert.deepEqual([...held.keys()], [API])
})

test('before the first list nothing is removed, since a missing pod means nothing', async t => {
  const { clock, pods, held, union } = start(t)
  union.replace('kubernetes', new Map([[WEB, {}]]))
  await clock.advance(1_000)
  assert.deepEqual([...held.keys()], [WEB])
  pods.replace([])
  pods.put(podResource({ name: 'api', serviceAccount: 'api' }))
  await clock.advance(100)
  assert.deepEqual([...held.keys()], [API])
})

test('five hundred pods that come together are one change, and sockets look at their callers again', async t => {
  const { clock, pods, counts, identities } = start(t)
  pods.replace([])
  await clock.advance(100)
  const before = { ...counts }
  const all = Array.from({ length: 500 }, (_, index) =>
    podResource({ name: `p-${index}`, serviceAccount: `sa-${index % 50}` }),
  )
  for (const pod of all) pods.put(pod)
  await clock.advance(100)
  assert.deepEqual(counts, { changes: before.changes + 1, reviews: before.reviews + 1 })
  await identities.listed
})

test('pods that share an identity share its names, as many as a certificate may have', async t => {
  const { clock, pods, problems, held } = start(t, { dnsNames: ['{pod}.svc'] })
  const named = Array.from({ length: 65 }, (_, index) => podResource({ name: `web-${index}`, serviceAccount: 'web' }))
  pods.replace(named.slice(0, 2).map(pod => pods.read(pod)))
  await clock.advance(100)
  assert.deepEqual(held.get(WEB), ['web-0.svc', 'web-1.svc'])
  pods.replace(named.slice(1, 2).map(pod => pods.read(pod)))
  await clock.advance(100)
  assert.deepEqual(held.get(WEB), ['web-1.svc'])
  pods.replace(named.map(pod => pods.read(pod)))
  await clock.advance(100)
  assert.equal(held.get(WEB)?.length, 64)
  pods.put(podResource({ name: 'api-0', serviceAccount: 'api' }))
  await clock.advance(100)
  assert.deepEqual(
    problems.map(({ pod, reason }) => [pod, /more than 64/.test(reason)]),
    [['default/web-64', true]],
  )
})

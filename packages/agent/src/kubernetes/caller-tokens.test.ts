/** The tokens that pods ask for, at a server that does the work of the API server, on a clock that the test moves. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import { type PodFault, type PodInit, podResource } from '../../test/pod-api-server.ts'
import { watchPods } from '../../test/watched-pods.ts'
import { CallerTokens } from './caller-tokens.ts'

const MINUTE = 60_000
const PODS: readonly PodInit[] = [
  { name: 'a', uid: 'uid-a' },
  { name: 'b', uid: 'uid-b' },
]

async function setUp(t: TestContext) {
  const resources = PODS.map(podResource)
  const watched = await watchPods(t, { prepare: server => resources.forEach(pod => void server.put(pod)) })
  const { server, clock, pods, connection, until, names } = watched
  await until(() => names().length === PODS.length)
  const tokens = new CallerTokens(clock, pods, connection)
  t.after(() => tokens[Symbol.dispose]())
  const asked = () => server.calls.filter(({ verb }) => verb === 'token').length
  const fail = (fault: PodFault | undefined) => {
    server.fault = ({ verb }) => (verb === 'token' ? fault : undefined)
  }
  let calls = 0
  const follow = (pod = 'uid-a', audience = 'api') => tokens.follow({ kind: 'pod-token', audience, pod }, () => calls++)
  return { ...watched, resources, tokens, asked, fail, follow, calls: () => calls }
}

test('pods of one service account get different tokens, and a pod that comes again and again costs one call', async t => {
  const { follow, asked, server } = await setUp(t)
  const [a, b] = [await follow('uid-a').read(), await follow('uid-b').read()]
  assert.notEqual(a.token, b.token)
  assert.equal(server.calls.at(-1)?.path, '/api/v1/namespaces/default/serviceaccounts/web/token')
  for (let time = 0; time < 50; time++) {
    using again = follow('uid-a')
    assert.equal((await again.read()).token, a.token)
  }
  assert.equal(asked(), 2)
})

test('a token is renewed at three quarters of its life, whatever the clock says', async t => {
  const { follow, clock, calls, asked } = await setUp(t)
  const token = follow()
  const first = await token.read()
  assert.equal(first.lifeMs, 60 * MINUTE - 10_000)
  await clock.advance(20 * MINUTE)
  clock.jump(-24 * 60 * MINUTE)
  await clock.advance(25 * MINUTE - 1)
  assert.deepEqual([calls(), (await token.read()).token], [0, first.token])
  await clock.advance(1)
  assert.equal(calls(), 1)
  assert.notEqual((await token.read()).token, first.token)
  assert.equal(asked(), 2)
})

test('a life of ages is cut, and one of no time is asked for again after a while', async t => {
  const { follow, clock, server, calls, fail } = await setUp(t)
  fail({ body: '{"spec":{"expirationSeconds":1e13},"status":{"token":"eyJ.ages"}}' })
  assert.equal((await follow().read()).lifeMs, 60 * MINUTE - 10_000)
  fail({ body: '{"spec":{"expirationSeconds":1e-9},"status":{"token":"eyJ.none"}}' })
  const none = follow('uid-b')
  assert.ok((await none.read()).lifeMs < 1)
  await clock.advance(2_999)
  assert.equal(calls(), 0)
  await clock.advance(1)
  assert.equal(calls(), 1)
  server.fault = () => undefined
  assert.ok((await none.read()).lifeMs > 0)
})

test('a renewal that fails is said once for each try, with pauses that grow, and the old token is there to its end', async t => {
  const { follow, clock, fail, calls, asked } = await setUp(t)
  const token = follow()
  const { token: first } = await token.read()
  fail({ status: 503, message: 'bearer eyJhbGciOi.eyJzdWI was refused' })
  await clock.advance(45 * MINUTE)
  await assert.rejects(token.read(), error => /HTTP 503/.test(String(error)) && !/eyJ/.test(inspect(error)))
  assert.equal((await token.read()).token, first)
  assert.equal(asked(), 2)
  while (asked() < 5) {
    const before = calls()
    await clock.advance(1_000)
    if (calls() > before) await assert.rejects(token.read(), /HTTP 503/)
  }
  assert.ok(clock.now() > 0)
  await clock.advance(15 * MINUTE)
  await assert.rejects(token.read())
  fail(undefined)
  await clock.advance(3 * MINUTE)
  assert.notEqual((await token.read()).token, first)
  assert.ok(asked() < 12, `${asked()} calls`)
})

test('a right that is missing is named, and a pod that asks in a loop meanwhile costs no more calls', async t => {
  const { follow, fail, asked } = await setUp(t)
  fail({ status: 403, message: 'forbidden' })
  for (let time = 0; time < 50; time++) {
    using again = follow()
    await assert.rejects(again.read(), /Grant the verb create on serviceaccounts\/token/)
  }
  assert.equal(asked(), 1)
})

test('a pod has 16 tokens at once, and another pod its own', async t => {
  const { follow, tokens } = await setUp(t)
  const all = Array.from({ length: 16 }, (_, index) => follow('uid-a', `api-${index}`))
  const refusal = (pod: string, audience = 'more') => tokens.noRoom({ kind: 'pod-token', audience, pod })
  assert.match(refusal('uid-a') ?? '', /^would be one more than 16.*: it waits until another is released; ask for/)
  await assert.rejects(follow('uid-a', 'more').read(), /one more than 16/)
  assert.deepEqual([refusal('uid-a', 'api-3'), refusal('uid-b')], [undefined, undefined])
  all[0]?.[Symbol.dispose]()
  assert.equal(refusal('uid-a'), undefined)
  await follow('uid-a', 'more').read()
})

test('the token of a pod that is gone is forgotten, and a static pod or none has none', async t => {
  const { follow, tokens, resources, server, until, names } = await setUp(t)
  const token = follow()
  await token.read()
  const [pod] = resources
  assert.ok(pod)
  server.delete(pod)
  await until(() => names().length === 1)
  await assert.rejects(token.read())
  assert.doesNotMatch(inspect(tokens, { depth: 9, showHidden: true }), /token-\d/)
  assert.match(tokens.refusal({ kind: 'pod-token', audience: 'api', pod: 'uid-a' }) ?? '', /not on this node/)
  server.put(podResource({ name: 'etcd', uid: 'uid-e', serviceAccount: '' }))
  await until(() => names().length === 2)
  assert.match(tokens.refusal({ kind: 'pod-token', audience: 'api', pod: 'uid-e' }) ?? '', /without a service account/)
})

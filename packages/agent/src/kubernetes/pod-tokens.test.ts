/** Tokens of the pods' service accounts, at a server that does the work of the API server. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import { CAError, type SpiffeId } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { type PodApiServer, type PodFault, type PodInit, podResource } from '../../test/pod-api-server.ts'
import { watchPods } from '../../test/watched-pods.ts'
import { PodTokens } from './pod-tokens.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const MINUTE = 60_000

async function setUp(t: TestContext, inits: readonly PodInit[] = [{ name: 'a' }]) {
  const pods = inits.map(podResource)
  const watched = await watchPods(t, { prepare: server => pods.forEach(pod => void server.put(pod)) })
  await watched.until(() => watched.names().length === pods.length)
  const warnings: string[] = []
  const tokens = new PodTokens(watched.clock, { warn: message => void warnings.push(message) })
  const following = tokens.follow({ pods: watched.pods, connection: watched.connection })
  const get = async (identity: SpiffeId = WEB, audience = 'istio-ca', expirationSeconds = 3600) =>
    await tokens.get({ identity, audience, expirationSeconds, signal: AbortSignal.timeout(20_000) })
  const asked = () => watched.server.calls.filter(({ verb }) => verb === 'token').length
  return { ...watched, resources: pods, tokens, following, warnings, get, asked }
}

function failTokens(server: PodApiServer, fault: PodFault | undefined): void {
  server.fault = ({ verb }) => (verb === 'token' ? fault : undefined)
}

test('pods of one service account share one token for each audience, and requests together share one call', async t => {
  const { get, asked, server } = await setUp(t, [{ name: 'a' }, { name: 'b' }, { name: 'c', serviceAccount: 'api' }])
  const found = await Promise.all(Array.from({ length: 32 }, () => get()))
  assert.deepEqual([...new Set(found.map(({ token }) => token))], ['token-1.of-default-web.for-istio-ca'])
  assert.equal(asked(), 1)
  assert.match((await get(WEB, 'vault')).token, /for-vault$/)
  assert.match((await get('spiffe://cluster.local/ns/default/sa/api')).token, /of-default-api\.for-/)
  assert.equal(asked(), 3)
  assert.equal(server.calls.at(-1)?.path, '/api/v1/namespaces/default/serviceaccounts/api/token')
})

test('a token is renewed before 80 % of the life that the API server gave it, and the old one serves while that fails', async t => {
  const { get, asked, clock, server, warnings } = await setUp(t)
  server.maxTokenSeconds = 1200
  const first = await get()
  assert.equal(first.expiresAt, clock.now() + 20 * MINUTE)
  clock.jump(15 * MINUTE - 1)
  assert.equal((await get()).token, first.token)
  clock.jump(1)
  failTokens(server, { status: 500, message: 'etcd is away' })
  assert.equal((await get()).token, first.token)
  assert.match(warnings.join(), /etcd is away.*The old token is used meanwhile/)
  failTokens(server, undefined)
  clock.jump(10_000)
  assert.notEqual((await get()).token, first.token)
  assert.equal(asked(), 3)
})

test('a token that the CA refuses is replaced at once, and a CA that refuses every token leads to one call in 10 s', async t => {
  const { get, asked, clock, tokens } = await setUp(t)
  const first = await get()
  clock.jump(MINUTE)
  tokens.refused(WEB)
  const second = await get()
  assert.notEqual(second.token, first.token)
  for (let attempt = 0; attempt < 100; attempt++) {
    tokens.refused(WEB)
    assert.equal((await get()).token, second.token)
  }
  assert.equal(asked(), 2)
  tokens.refused('spiffe://cluster.local/ns/default/sa/unknown')
})

test('the tokens of a pod that is gone are forgotten, and another pod of the account gets the next one', async t => {
  const watched = await setUp(t, [{ name: 'a' }, { name: 'b' }])
  const { get, server, until, names, resources, tokens, following } = watched
  const { token } = await get()
  const [first, last] = resources
  assert.ok(first && last)
  server.delete(first)
  await until(() => names().length === 1)
  assert.notEqual((await get()).token, token)
  server.delete(last)
  await until(() => names().length === 0)
  await assert.rejects(
    get(),
    isLocal('unauthenticated', /no pod of this node .*If its pods have ended, nothing is to be done/),
  )
  assert.ok(!inspect(tokens, { depth: 9, showHidden: true }).includes('token-'))
  // As if it had been in memory all the time.
  server.put(last)
  await until(() => names().length === 1)
  const before = watched.asked()
  await get()
  assert.equal(watched.asked(), before + 1)
  following[Symbol.dispose]()
})

test('a pod that was made again under its name is asked for again later: no long pause', async t => {
  const { get, server, resources } = await setUp(t)
  const [pod] = resources
  assert.ok(pod)
  // The table does not know it yet.
  server.fault = ({ verb }) => (verb === 'token' ? { status: 409, message: 'the UID does not match' } : undefined)
  await assert.rejects(get(), error => isLocal('unavailable', /HTTP 409/)(error) && Object(error).retryable)
})

for (const [fault, code, text, retryable] of [
  [{ status: 401 }, 'unauthenticated', /Renew the token/, true],
  [{ status: 403, message: 'forbidden' }, 'denied', /Grant the verb create on serviceaccounts\/token/, false],
  [{ status: 404, message: 'not found' }, 'unavailable', /Check that the service account exists/, true],
  [{ status: 429, retryAfter: '7' }, 'unavailable', /HTTP 429/, true],
  [{ status: 503 }, 'unavailable', /HTTP 503/, true],
  [{ body: '{"status":{"token":"secret value"}}' }, 'bad-response', /has no token, or no lifetime/, true],
  [{ body: '{"status":{"token":"abc"}}' }, 'bad-response', /has no token, or no lifetime/, true],
] as const)
  test(`the API server answers ${JSON.stringify(fault)}: ${code}, which says nothing of the CA`, async t => {
    const { get, server } = await setUp(t)
    failTokens(server, fault)
    await assert.rejects(get(), error => {
      assert.ok(isLocal(code, text)(error))
      assert.equal(Object(error).retryable, retryable)
      assert.equal(Object(error).retryAfterMs, 'retryAfter' in fault ? 7_000 : undefined)
      assert.doesNotMatch(inspect(error), /secret value/)
      return true
    })
  })

test('an API server that does not answer is given up after 10 s, and nobody waits longer than its signal', async t => {
  const { get, server, clock, tokens } = await setUp(t)
  failTokens(server, 'hang')
  const refused = assert.rejects(get(), isLocal('timeout', /no answer within 10000 ms/))
  await server.called('token')
  await clock.advance(10_000)
  await refused
  const stop = new AbortController()
  const given = { identity: WEB, audience: 'istio-ca', expirationSeconds: 3600, signal: stop.signal } as const
  const aborted = assert.rejects(tokens.get(given), /enough/)
  await server.called('token', 2)
  stop.abort(new Error('enough'))
  await aborted
})

test('before the pods are known, an identity is refused, which is distinguished from a fault of the CA', async () => {
  const tokens = new PodTokens(new FakeClock(), { warn() {} })
  const { signal } = new AbortController()
  await assert.rejects(
    tokens.get({ identity: WEB, audience: 'a', expirationSeconds: 600, signal }),
    isLocal('unauthenticated', /the API server has not listed the pods of this node yet/),
  )
})

function isLocal(code: string, text: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof CAError)
    assert.deepEqual([error.code, error.local], [code, true])
    assert.match(error.message, text)
    return true
  }
}

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Credential } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { pluginContext, warningsOf } from '../testing/plugin-context.ts'
import { TokenCache } from './token-cache.ts'

const MINUTE = 60_000
const { signal } = new AbortController()

/** A cache that refreshes in the last 5 minutes, at most every minute; its tokens live an hour and are numbered. */
function setUp() {
  const clock = new FakeClock()
  const context = pluginContext({ clock })
  const cache = new TokenCache(clock, context.log, { beforeMs: 5 * MINUTE, intervalMs: MINUTE })
  let count = 0
  const issue = async (): Promise<Credential> => ({ token: `token-${++count}`, expiresAt: clock.now() + 60 * MINUTE })
  return { clock, context, cache, issue }
}

test('a token is held until little of it is left', async () => {
  const { clock, cache, issue } = setUp()
  const get = async () => (await cache.get('a', signal, issue)).token
  assert.equal(await get(), 'token-1')
  clock.jump(55 * MINUTE - 1)
  assert.equal(await get(), 'token-1')
  clock.jump(1)
  assert.equal(await get(), 'token-2')
})

test('a clock that is set back has the token fetched again: its expiry was judged by another time', async () => {
  const { clock, cache, issue } = setUp()
  const get = async () => (await cache.get('a', signal, issue)).token
  assert.equal(await get(), 'token-1')
  clock.jump(-60 * MINUTE)
  assert.equal(await get(), 'token-2')
})

test('each key has its own token', async () => {
  const { cache, issue } = setUp()
  assert.equal((await cache.get('a', signal, issue)).token, 'token-1')
  assert.equal((await cache.get('b', signal, issue)).token, 'token-2')
  assert.equal((await cache.get('a', signal, issue)).token, 'token-1')
})

test('callers at the same time share one request', async () => {
  const { cache, issue } = setUp()
  const tokens = await Promise.all(Array.from({ length: 64 }, () => cache.get('a', signal, issue)))
  assert.deepEqual(new Set(tokens.map(({ token }) => token)), new Set(['token-1']))
})

test('a token without an expiry is not held', async () => {
  const { cache } = setUp()
  let count = 0
  const issue = async () => ({ token: `token-${++count}` })
  await cache.get('a', signal, issue)
  assert.equal((await cache.get('a', signal, issue)).token, 'token-2')
})

test('a source that has nothing newer is asked once in the interval', async () => {
  const { clock, cache } = setUp()
  const expiresAt = clock.now() + 3 * MINUTE
  let count = 0
  const issue = async () => ({ token: `token-${++count}`, expiresAt })
  await cache.get('a', signal, issue)
  clock.jump(MINUTE - 1)
  assert.equal((await cache.get('a', signal, issue)).token, 'token-1')
  clock.jump(1)
  assert.equal((await cache.get('a', signal, issue)).token, 'token-2')
})

test('while the old token is good, a failed refresh is one warning for each try, and then the error', async () => {
  const { clock, context, cache, issue } = setUp()
  await cache.get('a', signal, issue)
  const error = new Error('The service is down.')
  const fail = () => Promise.reject(error)
  clock.jump(55 * MINUTE)
  for (let i = 0; i < 3; i++) assert.equal((await cache.get('a', signal, fail)).token, 'token-1')
  assert.deepEqual(warningsOf(context), ['The service is down. The old token is used meanwhile.'])
  clock.jump(MINUTE)
  assert.equal((await cache.get('a', signal, fail)).token, 'token-1')
  assert.equal(warningsOf(context).length, 2)
  clock.jump(4 * MINUTE - 10_000)
  await assert.rejects(cache.get('a', signal, fail), error)
})

test('a caller that gives up leaves the request to the others', async () => {
  const { cache } = setUp()
  const { promise, resolve } = Promise.withResolvers<Credential>()
  const reason = new Error('nobody waits')
  const abort = new AbortController()
  let isAborted = () => false
  const first = cache.get('a', abort.signal, aborted => {
    isAborted = () => aborted.aborted
    return promise
  })
  const second = cache.get('a', signal, () => assert.fail('the request is shared'))
  abort.abort(reason)
  await assert.rejects(first, reason)
  assert.equal(isAborted(), false)
  resolve({ token: 'token-1' })
  assert.equal((await second).token, 'token-1')
})

test('when the last caller gives up the request is aborted, and the next caller gets another', async () => {
  const { cache, issue } = setUp()
  const reason = new Error('nobody waits')
  const abort = new AbortController()
  const { promise: aborted, resolve } = Promise.withResolvers<void>()
  const first = cache.get(
    'a',
    abort.signal,
    signal =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          reject(signal.reason)
          resolve()
        })
      }),
  )
  abort.abort(reason)
  await assert.rejects(first, reason)
  await aborted
  assert.equal((await cache.get('a', signal, issue)).token, 'token-1')
})

test('an aborted caller rejects with the reason of its signal, also where a token is held', async () => {
  const { cache, issue } = setUp()
  await cache.get('a', signal, issue)
  const reason = new Error('nobody waits')
  await assert.rejects(cache.get('a', AbortSignal.abort(reason), issue), reason)
})

test('a token may be refreshed by a share of its lifetime', async () => {
  const { clock, context, issue } = setUp()
  const beforeMs = (lifetimeMs: number) => lifetimeMs / 3
  const cache = new TokenCache(clock, context.log, { beforeMs, intervalMs: MINUTE })
  await cache.get('a', signal, issue)
  clock.jump(40 * MINUTE - 1)
  assert.equal((await cache.get('a', signal, issue)).token, 'token-1')
  clock.jump(1)
  assert.equal((await cache.get('a', signal, issue)).token, 'token-2')
})

test('a token that is forgotten is fetched again, and another one is not forgotten for it', async () => {
  const { cache, issue } = setUp()
  await cache.get('a', signal, issue)
  cache.forget('a', 'token-1')
  assert.equal((await cache.get('a', signal, issue)).token, 'token-2')
  cache.forget('a', 'token-1')
  assert.equal((await cache.get('a', signal, issue)).token, 'token-2')
})

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { FakeCA } from '@livery/ca-plugins/conformance'
import { HttpsJson } from '@livery/ca-plugins/support'
import { pemToDer, SystemClock } from '@livery/core/plugin'
import { FakeClock, makeIssuer } from '@livery/core/testing'
import { JsonCaServer, type JsonHandler } from '../../../ca-plugins/test/json-ca-server.ts'
import { BundleEndpoint } from './bundle-endpoint.ts'

const { pem } = await makeIssuer('CN=theirs', Date.UTC(2026, 0, 1))
const KEY = { kty: 'EC', use: 'x509-svid', x5c: [pemToDer(pem).toString('base64')] }

/** An endpoint over HTTPS, asked on a clock that the test advances, and what it reported. */
async function open(t: TestContext, handler: JsonHandler, roots?: string) {
  using wall = new SystemClock()
  using ca = await FakeCA.create({ clock: wall })
  const server = await JsonCaServer.start(handler, await ca.serverCertificate())
  const clock = new FakeClock()
  const tls = async () => ({ roots: Buffer.from(roots ?? ca.trustBundle().join('')) })
  const heard: (readonly string[] | string)[] = []
  let wake = Promise.withResolvers<void>()
  const add = (look: readonly string[] | string) => {
    heard.push(look)
    wake.resolve()
    wake = Promise.withResolvers()
  }
  const endpoint = new BundleEndpoint(
    'other.example',
    `${server.address}/spiffe/bundle?v=1`,
    clock,
    address => new HttpsJson({ address, tls, clock, timeoutMs: 5_000 }),
    () => 0.5,
  )
  const opened = endpoint.open({ listed: add, failed: add })
  t.after(async () => {
    opened[Symbol.dispose]()
    await server[Symbol.asyncDispose]()
  })
  const next = async (count: number) => {
    while (heard.length < count) await wake.promise
    return heard[count - 1]
  }
  /** Milliseconds until the next poll. */
  const planned = async () => {
    await clock.waitForDeadline(time => time !== clock.now() + 5_000)
    return Math.min(...clock.deadlines()) - clock.now()
  }
  return { server, clock, next, planned, opened }
}

const answer = (body: object | string, status = 200) => ({ status, body })

test('the roots of a bundle are listed, and the endpoint is asked again as often as its hint says', async t => {
  const { server, clock, next, planned } = await open(t, async () => answer({ keys: [KEY], spiffe_refresh_hint: 100 }))
  assert.deepEqual(await next(1), [pem])
  assert.equal(server.calls[0]?.path, '/spiffe/bundle?v=1')
  assert.equal(await planned(), 95_000)
  await clock.advance(95_000)
  assert.deepEqual(await next(2), [pem])
})

for (const [hint, ms] of [
  [1, 30_000],
  [1e12, 86_400_000],
  [undefined, 300_000],
  ['soon', 300_000],
] as const)
  test(`a hint of ${hint} means a poll after ${ms / 1_000} s`, async t => {
    const { next, planned } = await open(t, async () => answer({ keys: [KEY], spiffe_refresh_hint: hint }))
    await next(1)
    assert.equal(await planned(), ms * 0.95)
  })

test('an endpoint that fails is reported with its reason, and asked again soon', async t => {
  const replies = [
    answer({ keys: [KEY] }, 503),
    answer({ keys: 'none' }),
    answer('<html>'),
    { status: 302, headers: { location: 'https://evil.example/bundle' } },
    answer(`{"keys":[${'[],'.repeat(20_000)}[]]}`),
    answer({ keys: [KEY] }),
  ]
  const { clock, next, planned } = await open(t, async () => replies.shift() ?? 'reset')
  const reasons = [/answered 503/, /no list "keys"/, /not a JWK Set/, /answered 302/, /not a JWK Set/]
  for (const [index, reason] of reasons.entries()) {
    assert.match(String(await next(index + 1)), reason)
    const wait = await planned()
    assert.ok(wait >= 4_000 && wait <= 300_000, `${wait} ms`)
    await clock.advance(wait)
  }
  assert.deepEqual(await next(6), [pem])
})

test('an endpoint whose certificate does not verify is not believed', async t => {
  const { server, next } = await open(t, async () => answer({ keys: [KEY] }), pem)
  assert.match(String(await next(1)), /get the bundle of other\.example.*certificate|unable to verify/)
  assert.equal(server.calls.length, 0)
})

test('an endpoint that is closed is not asked again', async t => {
  const { clock, next, planned, opened } = await open(t, async () => answer({ keys: [KEY] }))
  await next(1)
  await planned()
  opened[Symbol.dispose]()
  assert.deepEqual(clock.deadlines(), [])
})

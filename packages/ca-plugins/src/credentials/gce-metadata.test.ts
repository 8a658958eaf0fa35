import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { freePort, temporaryFolder } from '@livery/test-support'
import { isCAError } from '../../test/citadel-setup.ts'
import { jwt, metadataAnswers, startTokenServer, type TokenAnswer } from '../../test/token-server.ts'
import { pluginContext, warningsOf } from '../testing/plugin-context.ts'
import { gceMetadata } from './gce-metadata.ts'

const MINUTE = 60_000
const AUDIENCE = 'https://ca.example'
const { signal } = new AbortController()

/** A metadata server whose tokens live an hour, and a source that asks it. */
async function setUp(t: TestContext, token: 'identity' | 'access' = 'identity') {
  const clock = new FakeClock()
  const context = pluginContext({ clock })
  let count = 0
  const good = metadataAnswers((name, audience) =>
    name === 'identity'
      ? jwt({ exp: clock.now() / 1000 + 3600, sub: `${audience} ${++count}` })
      : JSON.stringify({ access_token: `access-${++count}`, expires_in: 3600, token_type: 'Bearer' }),
  )
  const server = await startTokenServer(t, good)
  const config = { token, address: server.address }
  return { clock, context, server, good, config, source: await gceMetadata.create(context, config) }
}

test('an identity token is asked for as the metadata server demands, for the audience of the request', async t => {
  const { clock, server, source } = await setUp(t)
  const credential = await source.get({ audience: AUDIENCE, signal })
  assert.deepEqual(credential, {
    token: jwt({ exp: clock.now() / 1000 + 3600, sub: `${AUDIENCE} 1` }),
    expiresAt: clock.now() + 60 * MINUTE,
  })
  assert.equal(
    `${server.requests[0]?.url.pathname}${server.requests[0]?.url.search}`,
    '/computeMetadata/v1/instance/service-accounts/default/identity?audience=https%3A%2F%2Fca.example&format=full',
  )
})

test('the configured audience applies where the request has none; without either there is no token', async t => {
  const { context, config, server, source } = await setUp(t)
  const configured = await gceMetadata.create(context, { ...config, audience: 'configured' })
  await configured.get({ signal })
  assert.equal(server.requests[0]?.url.searchParams.get('audience'), 'configured')
  await assert.rejects(source.get({ signal }), isCAError('unauthenticated', /no audience is named\. Set audience/))
  assert.equal(server.requests.length, 1)
})

test('an access token has the lifetime that the server reports', async t => {
  const { clock, source } = await setUp(t, 'access')
  assert.deepEqual(await source.get({ signal }), { token: 'access-1', expiresAt: clock.now() + 60 * MINUTE })
})

test('a token is renewed once less than 25 minutes of it are left', async t => {
  const { clock, server, source } = await setUp(t, 'access')
  await source.get({ signal })
  clock.jump(35 * MINUTE - 1)
  assert.equal((await source.get({ signal })).token, 'access-1')
  clock.jump(1)
  assert.equal((await source.get({ signal })).token, 'access-2')
  assert.equal(server.requests.length, 2)
})

test('64 callers at once make one request, and each audience has its own', async t => {
  const { server, source } = await setUp(t)
  await Promise.all(Array.from({ length: 64 }, () => source.get({ audience: AUDIENCE, signal })))
  assert.equal(server.requests.length, 1)
  await source.get({ audience: 'other', signal })
  assert.equal(server.requests.length, 2)
})

test('a server that fails at renewal leaves the old token in use until its end', async t => {
  const { clock, context, server, source } = await setUp(t, 'access')
  await source.get({ signal })
  server.answer = () => ({ status: 503, headers: { 'metadata-flavor': 'Google' }, body: 'busy' })
  clock.jump(40 * MINUTE)
  assert.equal((await source.get({ signal })).token, 'access-1')
  assert.match(warningsOf(context)[0] ?? '', /HTTP 503 busy.*The old token is used meanwhile/)
  clock.jump(20 * MINUTE)
  await assert.rejects(source.get({ signal }), isCAError('unavailable', /HTTP 503 busy/))
})

test("an identity's own token file takes precedence over the metadata server", async t => {
  const { server, source } = await setUp(t)
  const file = join(temporaryFolder(t), 'token')
  await writeFile(file, 'token-of-api')
  assert.equal((await source.get({ tokenFile: file, signal })).token, 'token-of-api')
  assert.equal(server.requests.length, 0)
})

const flavor = { 'metadata-flavor': 'Google' }
const failures: readonly (readonly [string, TokenAnswer, Parameters<typeof isCAError>])[] = [
  ['without its mark', { body: 'a.b.c' }, ['bad-response', /not Google's metadata server/]],
  ['an error page without its mark', { status: 404, body: '<html>' }, ['bad-response', /not Google's metadata/]],
  ['that knows no such account', { status: 404, headers: flavor, body: 'gone' }, ['unauthenticated', /HTTP 404 gone/]],
  ['that refuses', { status: 403, headers: flavor }, ['unauthenticated', /HTTP 403\. Check that this machine/]],
  ['that is throttled', { status: 429, headers: flavor }, ['unavailable', /HTTP 429/]],
  ['that is not a JWT', { headers: flavor, body: '<html>' }, ['bad-response', /is not a JWT/]],
  ['that has expired', { headers: flavor, body: jwt({ exp: 1 }) }, ['unauthenticated', /expired at 1970-01-01/]],
  ['that is too long', { headers: flavor, body: 'x'.repeat(65_537) }, ['bad-response', /more than 65536 bytes/]],
  ['that redirects', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }, ['unavailable', /redirect/]],
  ['that resets the connection', 'reset', ['unavailable', /it is asked again/]],
]
for (const [what, answer, [code, message]] of failures)
  test(`an answer ${what} is ${code}`, async t => {
    const { server, source } = await setUp(t)
    server.answer = () => answer
    await assert.rejects(source.get({ audience: AUDIENCE, signal }), isCAError(code, message))
  })

test('a server that is not there is unavailable, with the address', async t => {
  const address = `http://127.0.0.1:${await freePort()}`
  const { context, config } = await setUp(t)
  const source = await gceMetadata.create(context, { ...config, address })
  await assert.rejects(source.get({ audience: AUDIENCE, signal }), (error: Error) => {
    assert.ok(error.message.includes(address))
    return isCAError('unavailable', /ECONNREFUSED/)(error)
  })
})

test('a server that does not answer is a timeout after 5 seconds, and leaves no timer', async t => {
  const { clock, server, source } = await setUp(t)
  server.answer = () => 'hang'
  const arrived = server.nextRequest()
  const getting = assert.rejects(
    source.get({ audience: AUDIENCE, signal }),
    isCAError('timeout', /no answer within 5000 ms/),
  )
  await arrived
  await clock.advance(5_000)
  await getting
  assert.deepEqual(clock.deadlines(), [])
})

test('an aborted request rejects with the reason of its signal while the server is silent', async t => {
  const { clock, server, source } = await setUp(t)
  server.answer = () => 'hang'
  const abort = new AbortController()
  const reason = new Error('nobody waits')
  const arrived = server.nextRequest()
  const getting = assert.rejects(source.get({ audience: AUDIENCE, signal: abort.signal }), reason)
  await arrived
  abort.abort(reason)
  await getting
  await clock.advance(0)
  assert.deepEqual(clock.deadlines(), [])
})

test('an invalid address is a problem of its option', () => {
  const { address } = gceMetadata.options
  assert.equal(address.problem(address.default), undefined)
  for (const wrong of ['metadata', 'https://metadata', 'http://a/b'])
    assert.match(address.problem(wrong) ?? '', /^is not an address/)
})

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { CredentialSource } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { isCAError } from '../../test/citadel-setup.ts'
import { jwt, metadataAnswers, startTokenServer, stsAnswers, type TokenAnswer } from '../../test/token-server.ts'
import { pluginContext, warningsOf } from '../testing/plugin-context.ts'
import { exchangeTokens, sts } from './sts.ts'

const MINUTE = 60_000
const AUDIENCE = 'identitynamespace:example.svc.id.goog:https://gke'
const { signal } = new AbortController()

/** A service whose tokens live an hour and are numbered, and a source that exchanges the token `subject-1` there. */
async function setUp(t: TestContext) {
  const clock = new FakeClock()
  const context = pluginContext({ clock })
  let count = 0
  const good = stsAnswers(
    () => ({ access_token: `access-${++count}`, expires_in: 3600, token_type: 'Bearer' }),
    token => token.startsWith('subject-'),
  )
  const server = await startTokenServer(t, good)
  const file = join(temporaryFolder(t), 'token')
  await writeFile(file, 'subject-1')
  const config = {
    endpoint: `${server.address}/v1/token`,
    audience: AUDIENCE,
    scope: 'https://www.googleapis.com/auth/cloud-platform',
  }
  const source = await sts.create({ ...context, tokenFile: file }, config)
  return { clock, context, server, good, file, config, source }
}

test('the token in the file is exchanged as RFC 8693 has it', async t => {
  const { clock, server, source } = await setUp(t)
  assert.deepEqual(await source.get({ signal }), { token: 'access-1', expiresAt: clock.now() + 60 * MINUTE })
  const [request] = server.requests
  assert.equal(request?.url.pathname, '/v1/token')
  assert.deepEqual(Object.fromEntries(new URLSearchParams(request?.body)), {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    audience: AUDIENCE,
    scope: 'https://www.googleapis.com/auth/cloud-platform',
    requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    subject_token: 'subject-1',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
  })
})

test('64 callers at once make one request; its token is held until 5 minutes before its end', async t => {
  const { clock, server, source } = await setUp(t)
  await Promise.all(Array.from({ length: 64 }, () => source.get({ signal })))
  clock.jump(55 * MINUTE - 1)
  assert.equal((await source.get({ signal })).token, 'access-1')
  assert.equal(server.requests.length, 1)
  clock.jump(1)
  assert.equal((await source.get({ signal })).token, 'access-2')
})

test('a renewal exchanges the token that the file has by then', async t => {
  const { clock, server, file, source } = await setUp(t)
  await source.get({ signal })
  await writeFile(file, 'subject-2')
  clock.jump(56 * MINUTE)
  await source.get({ signal })
  assert.equal(new URLSearchParams(server.requests[1]?.body).get('subject_token'), 'subject-2')
})

test("each identity's token is exchanged for a separate one", async t => {
  const { server, file, source } = await setUp(t)
  const own = `${file}.api`
  await writeFile(own, 'subject-api')
  await source.get({ signal })
  assert.equal((await source.get({ tokenFile: own, signal })).token, 'access-2')
  assert.equal((await source.get({ tokenFile: own, signal })).token, 'access-2')
  assert.equal(new URLSearchParams(server.requests[1]?.body).get('subject_token'), 'subject-api')
})

test('an expired token is not sent', async t => {
  const { server, file, source } = await setUp(t)
  await writeFile(file, jwt({ exp: 1 }))
  await assert.rejects(source.get({ signal }), isCAError('unauthenticated', /token: it expired at 1970-01-01/))
  assert.equal(server.requests.length, 0)
})

test('the identity token of the metadata server is exchanged where that is configured', async t => {
  const { clock, context, server, config } = await setUp(t)
  const identity = jwt({ exp: clock.now() / 1000 + 3600 })
  const metadata = await startTokenServer(
    t,
    metadataAnswers((_, audience) => (audience === 'sts' ? identity : '')),
  )
  server.answer = stsAnswers(
    () => ({ access_token: 'access-1', expires_in: 3600 }),
    token => token === identity,
  )
  const gceMetadata = { audience: 'sts', address: metadata.address }
  const source = await sts.create(context, { ...config, gceMetadata })
  assert.equal((await source.get({ signal })).token, 'access-1')
})

test('any source can be exchanged', async t => {
  const { context, config } = await setUp(t)
  const subject: CredentialSource = {
    description: 'a token from a vault',
    isConfigured: () => false,
    get: async () => ({ token: 'subject-x' }),
  }
  const source = exchangeTokens(context, config, subject)
  assert.equal((await source.get({ signal })).token, 'access-1')
  assert.equal(source.isConfigured?.({}), false)
  assert.match(source.description, /gives for a token from a vault$/)
})

test('a token without expires_in expires as its own claim says, or is not cached', async t => {
  const { clock, server, source } = await setUp(t)
  server.answer = stsAnswers(() => ({ access_token: 'opaque' }))
  assert.deepEqual(await source.get({ signal }), { token: 'opaque' })
  const token = jwt({ exp: clock.now() / 1000 + 60 })
  server.answer = stsAnswers(() => ({ access_token: token }))
  assert.deepEqual(await source.get({ signal }), { token, expiresAt: clock.now() + MINUTE })
})

test('an expires_in that is not a number of seconds counts for nothing, whatever it is', async t => {
  const { server, source } = await setUp(t)
  for (const expiresIn of [{ toString: '' }, [], null, true, {}]) {
    server.answer = stsAnswers(() => ({ access_token: 'opaque', expires_in: expiresIn }))
    assert.deepEqual(await source.get({ signal }), { token: 'opaque' })
  }
})

test('an error whose message is not text is shown unchanged', async t => {
  const { server, source } = await setUp(t)
  server.answer = () => ({ status: 403, body: '{"error":{"message":{"toString":""}}}' })
  await assert.rejects(source.get({ signal }), isCAError('unauthenticated', /HTTP 403 {"error":{"message":/))
})

const passing: readonly (readonly [string, TokenAnswer])[] = [
  ['HTTP 500', { status: 500 }],
  ['HTTP 503', { status: 503 }],
  ['a reset connection', 'reset'],
]
for (const [what, failure] of passing) {
  test(`${what} is tried again after 50 ms, and succeeds at the fifth try`, async t => {
    const { clock, server, good, source } = await setUp(t)
    server.answer = request => (server.requests.length < 5 ? failure : good(request))
    const getting = source.get({ signal })
    for (let i = 0; i < 4; i++) {
      await clock.waitForDeadline(time => time === clock.now() + 50)
      await clock.advance(50)
    }
    assert.equal((await getting).token, 'access-1')
    assert.deepEqual(clock.deadlines(), [])
  })

  test(`${what} five times is unavailable`, async t => {
    const { clock, server, source } = await setUp(t)
    server.answer = () => failure
    const getting = assert.rejects(source.get({ signal }), isCAError('unavailable', /^Cannot exchange the token in /))
    for (let i = 0; i < 4; i++) {
      await clock.waitForDeadline(time => time === clock.now() + 50)
      await clock.advance(50)
    }
    await getting
    assert.equal(server.requests.length, 5)
  })
}

for (const status of [501, 505, 511])
  test(`HTTP ${status} is not tried again`, async t => {
    const { server, source } = await setUp(t)
    server.answer = () => ({ status })
    await assert.rejects(source.get({ signal }), { code: 'unavailable', retryable: false })
    assert.equal(server.requests.length, 1)
  })

test('a try that gets no answer ends after 5 seconds, and is followed by another', async t => {
  const { clock, server, good, source } = await setUp(t)
  server.answer = () => 'hang'
  const arrived = server.nextRequest()
  const getting = source.get({ signal })
  await arrived
  server.answer = good
  await clock.advance(5_000)
  await clock.waitForDeadline(time => time === clock.now() + 50)
  await clock.advance(50)
  assert.equal((await getting).token, 'access-1')
})

const refusals: readonly (readonly [string, TokenAnswer, Parameters<typeof isCAError>])[] = [
  [
    'an OAuth error',
    { status: 400, body: '{"error":"invalid_grant","error_description":"bad audience, in subject-1"}' },
    ['unauthenticated', /HTTP 400 invalid_grant: bad audience, in \[secret\]\. Check audience/],
  ],
  [
    'an error of Google',
    { status: 403, body: '{"error":{"code":403,"message":"no such pool"}}' },
    ['unauthenticated', /HTTP 403 no such pool/],
  ],
  ['a page', { status: 404, body: '<html>gone</html>' }, ['unauthenticated', /HTTP 404 <html>gone/]],
  ['no JSON', { body: '<html>' }, ['bad-response', /no access_token/]],
  ['no token', { body: '{}' }, ['bad-response', /no access_token/]],
  ['a token of two lines', { body: '{"access_token":"a\\nb"}' }, ['bad-response', /no access_token/]],
]
for (const [what, answer, [code, message]] of refusals)
  test(`${what} is ${code}, asked once, and the token is not in the error`, async t => {
    const { server, source } = await setUp(t)
    server.answer = () => answer
    await assert.rejects(source.get({ signal }), (error: Error) => {
      assert.doesNotMatch(`${error.stack} ${JSON.stringify(error)} ${error.cause}`, /subject-1/)
      return isCAError(code, message)(error)
    })
    assert.equal(server.requests.length, 1)
  })

test('a throttling service reports when to try again', async t => {
  const { server, source } = await setUp(t)
  server.answer = () => ({ status: 429, headers: { 'retry-after': '7' } })
  await assert.rejects(source.get({ signal }), { code: 'rate-limited', retryAfterMs: 7000 })
  assert.equal(server.requests.length, 1)
})

test('a service that is down at renewal leaves the old token in use, with a warning', async t => {
  const { clock, context, server, source } = await setUp(t)
  await source.get({ signal })
  server.answer = () => ({ status: 501 })
  clock.jump(56 * MINUTE)
  assert.equal((await source.get({ signal })).token, 'access-1')
  assert.match(warningsOf(context)[0] ?? '', /HTTP 501.*old token is used meanwhile/)
})

test('an aborted request rejects with the reason of its signal: during the call, and between two tries', async t => {
  const { clock, server, source } = await setUp(t)
  const reason = new Error('nobody waits')
  for (const failure of ['hang', { status: 500 }] as const) {
    server.answer = () => failure
    const abort = new AbortController()
    const arrived = server.nextRequest()
    const getting = assert.rejects(source.get({ signal: abort.signal }), reason)
    await arrived
    if (failure !== 'hang') await clock.waitForDeadline(time => time === clock.now() + 50)
    abort.abort(reason)
    await getting
    await clock.advance(0)
    assert.deepEqual(clock.deadlines(), [])
  }
})

test('its endpoint has to be https, but on this machine', () => {
  const { endpoint } = sts.options
  for (const good of [endpoint.default, 'http://localhost:1/token', 'http://[::1]:1/'])
    assert.equal(endpoint.problem(good), undefined)
  assert.match(endpoint.problem('http://sts.example/token') ?? '', /^would send the token unencrypted/)
  assert.match(endpoint.problem('sts') ?? '', /^is not a URL/)
})

test('with workloadToken the token of each identity is exchanged, and none is given to another identity', async t => {
  const { context, config, server, file } = await setUp(t)
  const workloadTokens = { get: async ({ identity }: { identity: string }) => ({ token: `subject-${identity}` }) }
  const workloadToken = { audience: 'gcp' }
  const source = await sts.create({ ...context, tokenFile: file, workloadTokens }, { ...config, workloadToken })
  const of = async (name: string) =>
    (await source.get({ identity: `spiffe://cluster.local/ns/default/sa/${name}`, signal })).token
  assert.deepEqual([await of('web'), await of('api'), await of('web')], ['access-1', 'access-2', 'access-1'])
  const subjects = server.requests.map(({ body }) => new URLSearchParams(body).get('subject_token'))
  assert.deepEqual(
    subjects,
    ['web', 'api'].map(name => `subject-spiffe://cluster.local/ns/default/sa/${name}`),
  )
  await source.get({ signal })
  assert.equal(new URLSearchParams(server.requests.at(-1)?.body).get('subject_token'), 'subject-1')
  await assert.rejects(async () => sts.create(context, { ...config, workloadToken }), /Add the section kubernetes/)
})

/** Callers whose tokens an API server reviews, over real HTTPS and gRPC. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { FakeClock } from '@livery/core/testing'
import { API, WEB } from '../../test/citadel-setup.ts'
import { ask, setUpCaServer } from '../../test/istio-ca-server-setup.ts'
import { type JsonCall, JsonCaServer, type JsonReply } from '../../test/json-ca-server.ts'
import { jwt } from '../../test/token-server.ts'
import { ApiConnection } from '../kubernetes-api/api-connection.ts'
import { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'
import { HttpPool, tlsAgent } from '../transport/http-pool.ts'
import type { TokenGrant } from './authenticators.ts'
import { reviewedTokens } from './token-review.ts'

const AUDIENCE = 'istio-ca'
const TOKEN = jwt({ sub: 'web' })
const REFUSED = { code: status.UNAUTHENTICATED, details: 'request authenticate failure' }

/** An API server at which `review` says what becomes of a token. */
async function setUp(t: TestContext, grants: readonly TokenGrant[] = []) {
  const clock = new FakeClock(Date.now())
  const good = (token: unknown): object => ({
    authenticated: token === TOKEN,
    ...(token === TOKEN && { user: { username: 'system:serviceaccount:default:web' }, audiences: [AUDIENCE] }),
  })
  const answer = { review: good, status: 201 }
  const authority = await CertificateAuthority.open({ clock, trustDomain: 'kube.local', intermediate: false })
  const { chain, privateKey } = await authority.issueServerCertificate(
    { dnsNames: ['localhost'], ipAddresses: [] },
    86_400,
  )
  const handler = async ({ path, json }: JsonCall): Promise<JsonReply> => {
    assert.equal(path, '/apis/authentication.k8s.io/v1/tokenreviews')
    const { token, audiences } = Object(json['spec'])
    assert.deepEqual(audiences, [AUDIENCE])
    // As the API server has it for an account without the right.
    const message = `tokenreviews.authentication.k8s.io is forbidden: User "system:serviceaccount:livery-system:livery" cannot create resource "tokenreviews" in API group "authentication.k8s.io" at the cluster scope ${token}`
    return { status: answer.status, body: { kind: 'TokenReview', message, status: answer.review(token) } }
  }
  const api = await JsonCaServer.start(handler, { cert: chain, key: privateKey })
  t.after(() => api[Symbol.asyncDispose]())
  const pool = new HttpPool(tlsAgent({ roots: Buffer.from(authority.trustBundle().join('')) }))
  const login = {
    server: api.address,
    open: () => ({ login, authorize: async () => ({ pool, headers: {} }), close: () => pool.close() }),
  }
  const connection = new ApiConnection({ read: async () => login }, clock)
  t.after(() => connection[Symbol.asyncDispose]())
  const options = { connection, clock, audience: AUDIENCE, trustDomain: 'cluster.local', grants: async () => grants }
  const setup = await setUpCaServer(t, { authenticators: [reviewedTokens(options)] })
  return { clock, api, answer, good, setup }
}

function nameOf([leaf = '']: readonly string[]): string | undefined {
  return new X509Certificate(leaf).subjectAltName
}

test('the identity is that of the reviewed service account; what is no JWT, or has expired, is not even reviewed', async t => {
  const { setup, api, clock } = await setUp(t)
  assert.equal(nameOf(await ask(setup, { token: TOKEN })), `URI:${WEB}`)
  await assert.rejects(ask(setup, { token: jwt({ sub: 'other' }) }), REFUSED)
  assert.equal(api.calls.length, 2)
  for (const token of ['opaque', jwt({ exp: Math.floor(clock.now() / 1000) - 1 })])
    await assert.rejects(ask(setup, { token }), REFUSED)
  await assert.rejects(ask(setup), REFUSED)
  assert.equal(api.calls.length, 2)
})

test('a token that is no longer good is refused after 10 s at the latest, and is reviewed once until then', async t => {
  const { setup, api, answer, clock } = await setUp(t)
  await Promise.all(Array.from({ length: 8 }, () => ask(setup, { token: TOKEN })))
  assert.equal(api.calls.length, 1)
  answer.review = () => ({ authenticated: false })
  clock.jump(9_999)
  await ask(setup, { token: TOKEN })
  clock.jump(1)
  await assert.rejects(ask(setup, { token: TOKEN }), REFUSED)
  assert.equal(api.calls.length, 2)
})

const user = { username: 'system:serviceaccount:default:web' }
for (const [what, review] of [
  ['says nothing of audiences', { authenticated: true, user }],
  ['names another audience', { authenticated: true, user, audiences: ['https://kubernetes.default.svc'] }],
  [
    'names a user that is not a service account',
    { authenticated: true, user: { username: 'admin' }, audiences: [AUDIENCE] },
  ],
  [
    'names a service account that makes no SPIFFE ID',
    { authenticated: true, user: { username: 'system:serviceaccount:default:a b' }, audiences: [AUDIENCE] },
  ],
  ['writes authenticated as text', { authenticated: 'true', user, audiences: [AUDIENCE] }],
] as const)
  test(`an answer that ${what} is a refusal`, async t => {
    const { setup, answer } = await setUp(t)
    answer.review = () => review
    await assert.rejects(ask(setup, { token: TOKEN }), REFUSED)
  })

test('while the API server cannot say, the answer is UNAVAILABLE, and no warning shows the token', async t => {
  const { setup, answer, good, api } = await setUp(t)
  const unavailable = { code: status.UNAVAILABLE, details: 'the caller cannot be authenticated now' }
  answer.status = 503
  await assert.rejects(ask(setup, { token: TOKEN }), unavailable)
  answer.status = 403
  await assert.rejects(ask(setup, { token: TOKEN }), unavailable)
  assert.match(setup.warnings.join(), /Grant the verb create on tokenreviews in authentication.k8s.io/)
  assert.ok(!setup.warnings.join().includes(TOKEN))
  answer.status = 201
  answer.review = good
  await ask(setup, { token: TOKEN })
  await api[Symbol.asyncDispose]()
  await assert.rejects(ask(setup, { token: jwt({ sub: 'later' }) }), unavailable)
})

test("a node's token is good for the identities that a grant of its identity lists, and for no others", async t => {
  const { setup } = await setUp(t, [{ identity: WEB, impersonates: [API] }])
  assert.equal(nameOf(await ask(setup, { token: TOKEN, impersonate: API })), `URI:${API}`)
  const impersonate = 'spiffe://cluster.local/ns/x/sa/y'
  await assert.rejects(ask(setup, { token: TOKEN, impersonate }), { code: status.UNAUTHENTICATED })
})

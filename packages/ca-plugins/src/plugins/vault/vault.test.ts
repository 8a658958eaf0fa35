import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import { CAError, type CAErrorCode, type CredentialRequest } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { isCAError } from '../../../test/citadel-setup.ts'
import { CuttableProxy } from '../../../test/cuttable-proxy.ts'
import type { JsonCall, JsonReply } from '../../../test/json-ca-server.ts'
import { startVault, type VaultStandInOptions } from '../../../test/vault-stand-in.ts'
import { FakeCA } from '../../conformance/index.ts'
import { pluginContext, warningsOf } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import type { VaultConfig } from './config.ts'
import { vault } from './index.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const JWT = 'service-account-token'
const LOGIN = { kubernetes: { role: 'livery', mount: 'kubernetes' } }

interface SetupOptions extends Pick<VaultStandInOptions, 'kubernetes' | 'maxTtl'> {
  readonly config?: Partial<VaultConfig>
}

async function setUp(t: TestContext, { config: more = {}, ...options }: SetupOptions = {}) {
  const clock = new FakeClock()
  const ca = await FakeCA.create({ clock })
  t.after(() => ca[Symbol.dispose]())
  const fault: { behaviour?: (call: JsonCall) => Promise<JsonReply> | undefined } = {}
  const { server, leases } = await startVault({ ca, clock, ...options, behaviour: call => fault.behaviour?.(call) })
  t.after(() => server[Symbol.asyncDispose]())
  const credentials = {
    description: 'the token of the test',
    token: JWT,
    get: async ({ tokenFile }: CredentialRequest) => ({ token: tokenFile ?? credentials.token }),
  }
  const context = pluginContext({ clock, credentials })
  const config = { address: server.address, role: 'workload', mount: 'pki', ...more }
  const client = await vault.create(context, config)
  t.after(() => client[Symbol.asyncDispose]())
  const issue = async (request = {}) => client.issue(await workloadRequest(WEB, request))
  const count = (part: string) => server.calls.filter(({ path }) => path.includes(part)).length
  return { ca, clock, server, leases, context, config, credentials, client, fault, issue, count }
}

const kubernetesOf = (leaseSeconds: number, maxSeconds?: number) => ({
  jwts: new Set([JWT]),
  leaseSeconds,
  ...(maxSeconds !== undefined && { maxSeconds }),
})

/** The longest first pause: `outage.ts`. */
const FIRST_PAUSE_MS = 60

test('a request that may wait for its connection logs in and succeeds as soon as the server is back', async t => {
  const { server, clock, context, config } = await setUp(t, { config: LOGIN, kubernetes: kubernetesOf(3600) })
  await using proxy = await CuttableProxy.start(Number(new URL(server.address).port))
  await using client = await vault.create(context, { ...config, address: `http://127.0.0.1:${proxy.port}` })
  await proxy.refuse()
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable', /ECONNREFUSED/))
  const waiting = client.issue({ ...(await workloadRequest(WEB)), connectWithinMs: 5_000 })
  await clock.waitForDeadline(time => time <= clock.now() + FIRST_PAUSE_MS)
  await proxy.accept()
  await clock.advance(FIRST_PAUSE_MS)
  await waiting
})

test('the role, the mount, the issuer and the namespace are where they belong', async t => {
  const config = { mount: 'team/pki', issuer: 'current', namespace: 'a/b' }
  const { fault, issue, server } = await setUp(t, { config })
  fault.behaviour = async () => ({ status: 404, body: { errors: [] } })
  await assert.rejects(
    issue({ ttlSeconds: 90, dnsNames: ['a.b', '*.b'] }),
    isCAError('unavailable', /HTTP 404. Check address, mount, role/),
  )
  const [call] = server.calls
  assert.equal(call?.path, '/v1/team/pki/issuer/current/sign/workload')
  assert.equal(call?.headers['x-vault-namespace'], 'a/b')
  assert.equal(call?.headers['x-vault-token'], JWT)
  const { csr, ...body } = call?.json ?? {}
  assert.match(String(csr), /^-----BEGIN CERTIFICATE REQUEST-----/)
  assert.deepEqual(body, { uri_sans: WEB, alt_names: 'a.b,*.b', exclude_cn_from_sans: true, ttl: '90s', format: 'pem' })
})

test('a warning of the server is shown once', async t => {
  const { context, issue } = await setUp(t, { maxTtl: 600 })
  const { chain } = await issue({ ttlSeconds: 3600 })
  await issue({ ttlSeconds: 3600 })
  const { validToDate } = new X509Certificate(chain[0] ?? '')
  assert.ok(validToDate.getTime() <= context.clock.now() + 601_000)
  assert.equal(warningsOf(context).length, 1)
  assert.match(warningsOf(context)[0] ?? '', /TTL "3600s" is longer than permitted maxTTL/)
})

test('a login is kept, renewed at two thirds of its lease, and logged in for again near its last end', async t => {
  const { issue, count, clock, leases } = await setUp(t, { config: LOGIN, kubernetes: kubernetesOf(3600, 9000) })
  await issue()
  await issue()
  assert.deepEqual([count('login'), count('renew-self')], [1, 0])
  clock.jump(2400_000)
  await issue()
  assert.deepEqual([count('login'), count('renew-self')], [1, 1])
  clock.jump(2399_000)
  await issue()
  assert.deepEqual([count('login'), count('renew-self')], [1, 1])
  for (const jump of [1_000, 2400_000]) {
    clock.jump(jump)
    await issue()
  }
  // 1800 s are left of 9000: half of a lease still counts, and less does not.
  assert.deepEqual([count('login'), count('renew-self')], [1, 3])
  clock.jump(1200_000)
  await issue()
  assert.deepEqual([count('login'), count('renew-self')], [2, 4])
  assert.equal(leases.size, 2)
})

test('a login that ended on the server is repeated in the same call, and only once', async t => {
  const { issue, count, leases, fault } = await setUp(t, { config: LOGIN, kubernetes: kubernetesOf(3600) })
  await issue()
  leases.clear()
  await issue()
  assert.deepEqual([count('login'), count('sign')], [2, 3])
  fault.behaviour = call => {
    if (!call.path.includes('sign')) return undefined
    return Promise.resolve({ status: 403, body: { errors: ['permission denied'] } })
  }
  await assert.rejects(issue(), isCAError('unauthenticated', /role "livery" of auth\/kubernetes is bound/))
  assert.deepEqual([count('login'), count('sign')], [3, 5])
})

test('many calls whose login ended share the next one, which is renewed in its time', async t => {
  const { issue, count, leases, clock } = await setUp(t, { config: LOGIN, kubernetes: kubernetesOf(3600) })
  await issue()
  leases.clear()
  await Promise.all(Array.from({ length: 64 }, () => issue()))
  clock.jump(2400_000)
  await issue()
  assert.deepEqual([count('login'), count('renew-self')], [2, 1])
})

test('a policy that does not allow the role is denied, and no reason to log in again', async t => {
  const { issue, count, fault } = await setUp(t, { config: LOGIN, kubernetes: kubernetesOf(3600) })
  await issue()
  fault.behaviour = async () => ({ status: 403, body: { errors: ['1 error occurred:\n\t* permission denied\n\n'] } })
  await assert.rejects(issue(), isCAError('denied', /policy with "update"/))
  assert.equal(count('login'), 1)
})

test('sixty-four at once share a login, and each token file has its own', async t => {
  const kubernetes = kubernetesOf(3600)
  kubernetes.jwts.add('another')
  const { issue, count } = await setUp(t, { config: LOGIN, kubernetes })
  await Promise.all(Array.from({ length: 64 }, () => issue()))
  assert.equal(count('login'), 1)
  await issue({ tokenFile: 'another' })
  await issue()
  assert.equal(count('login'), 2)
})

test('a renewal that fails leaves the lease in use, with a warning without the token', async t => {
  const { issue, context, clock, fault } = await setUp(t, { config: LOGIN, kubernetes: kubernetesOf(3600) })
  await issue()
  clock.jump(2400_000)
  fault.behaviour = ({ path }) =>
    path.includes('renew') ? Promise.resolve({ status: 500, body: { errors: ['hvs.lease-1 is lost'] } }) : undefined
  await issue()
  const [warning = ''] = warningsOf(context)
  assert.match(warning, /a renewed login.*HTTP 500: \[secret\] is lost.*The old token is used meanwhile/)
})

test('a login that is refused is unauthenticated, without the token that was sent', async t => {
  const { issue, fault, server } = await setUp(t, { config: LOGIN, kubernetes: kubernetesOf(3600) })
  for (const [status, error] of [
    [400, 'invalid role name "livery"'],
    [403, `permission denied to ${JWT}`],
  ] as const) {
    fault.behaviour = async () => ({ status, body: { errors: [error] } })
    await assert.rejects(issue(), (failure: unknown) => {
      assert.ok(!inspect(failure, { depth: 10, showHidden: true }).includes(JWT))
      return isCAError('unauthenticated', /a login from .*bound to the service account/)(failure)
    })
  }
  fault.behaviour = async () => ({ status: 200, body: { auth: { client_token: 'two words' } } })
  await assert.rejects(issue(), isCAError('bad-response', /no client_token/))
  assert.ok(server.calls.every(({ path }) => path.endsWith('login')))
})

const OUT_OF_LIFE = 'TTL would result in notAfter that is beyond the expiration of the CA certificate'
const BAD_TOKEN = '2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n'
const statuses: readonly (readonly [number, readonly string[], CAErrorCode, boolean, RegExp])[] = [
  [400, ['missing client token'], 'unauthenticated', true, /the token of the test/],
  [400, ['unknown role: workload'], 'unavailable', false, /mount, role/],
  [400, [`cannot satisfy request, as ${OUT_OF_LIFE}`], 'ttl-too-long', false, /shorter ttl/],
  [400, ['the common_name field is required'], 'denied', false, /require_cn=false/],
  [400, ['URI Subject Alternative Names are not allowed in this role'], 'denied', false, /allowed_uri_sans/],
  [400, ['role requires keys of type rsa'], 'invalid-csr', false, /key_type/],
  [400, [], 'invalid-csr', false, /HTTP 400\. Use/],
  [403, ['permission denied'], 'unauthenticated', true, /has not expired/],
  [403, [BAD_TOKEN], 'unauthenticated', true, /has not expired/],
  [403, ['1 error occurred:\n\t* permission denied\n\n'], 'denied', false, /policy/],
  [404, ['no handler for route "pki/sign/workload"'], 'unavailable', false, /address, mount/],
  [405, ['unsupported operation'], 'unavailable', false, /address, mount/],
  [307, [], 'unavailable', true, /set address to the active one/],
  [412, ['required index state not present'], 'unavailable', true, /log of the server/],
  [429, ['rate limit quota exceeded'], 'rate-limited', true, /raise the quota/],
  [472, [], 'unavailable', true, /log of the server/],
  [473, [], 'unavailable', true, /log of the server/],
  [500, ['internal error'], 'unavailable', true, /log of the server/],
  [502, [], 'unavailable', true, /log of the server/],
  [503, ['Vault is sealed'], 'unavailable', true, /Unseal/],
]
for (const [status, errors, code, retryable, remedy] of statuses)
  test(`HTTP ${status} ${JSON.stringify(errors)} is ${code}, asked once, with a remedy`, async t => {
    const { issue, fault, server } = await setUp(t)
    fault.behaviour = async () => ({ status, body: { errors } })
    await assert.rejects(issue(), (error: unknown) => {
      assert.ok(error instanceof CAError)
      assert.equal(error.retryable, retryable)
      return isCAError(code, remedy)(error)
    })
    assert.equal(server.calls.length, 1)
  })

test('answers that are not certificates are bad responses, for the roots too', async t => {
  const { issue, client, fault, ca } = await setUp(t)
  const root = ca.trustBundle()[0] ?? ''
  const pem = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'
  const trustBundle = async () => client.trustBundle?.({ signal: t.signal })
  for (const data of [undefined, {}, { certificate: 1 }, { certificate: '' }, { certificate: root, ca_chain: [pem] }]) {
    fault.behaviour = async () => ({ status: 200, body: { data } })
    await assert.rejects(issue(), isCAError('bad-response', /Check address, mount and role\.$/))
    await assert.rejects(trustBundle(), isCAError('bad-response', /has no list of issuers/))
  }
  fault.behaviour = async () => ({ status: 200, body: { data: { certificate: root, ca_chain: Array(11).fill(root) } } })
  await assert.rejects(issue(), isCAError('bad-response', /more than 10\. Check address, mount and role\.$/))
  fault.behaviour = async () => ({ status: 200, body: '<html>' })
  await assert.rejects(issue(), isCAError('bad-response', /not JSON/))
  fault.behaviour = async () => ({ status: 200, body: { data: { keys: ['a'], certificate: pem } } })
  await assert.rejects(trustBundle(), isCAError('bad-response', /cannot be parsed\. Check address and mount\.$/))
})

test('errors and warnings that are not text are left out', async t => {
  const { issue, fault } = await setUp(t)
  fault.behaviour = async () => ({ status: 400, body: { errors: [{ toString: 1 }, 'unknown role'] } })
  await assert.rejects(issue(), isCAError('unavailable', /HTTP 400: unknown role\. /))
  fault.behaviour = async () => ({ status: 200, body: { warnings: [{ toString: 1 }], data: {} } })
  await assert.rejects(issue(), isCAError('bad-response', /has no certificate/))
})

test('an issuer that is removed while the roots are read is left out, and a list without a root, or of very many, is refused', async t => {
  const { client, fault, ca, server } = await setUp(t)
  const trustBundle = async () => client.trustBundle?.({ signal: t.signal })
  fault.behaviour = ({ path }) =>
    path.includes('issuers')
      ? Promise.resolve({ status: 200, body: { data: { keys: ['issuer-0', 'gone'] } } })
      : undefined
  assert.deepEqual(await trustBundle(), ca.trustBundle())
  const keys = Array(101).fill('issuer-0')
  fault.behaviour = async () => ({ status: 200, body: { data: { keys } } })
  const asked = server.calls.length
  await assert.rejects(trustBundle(), isCAError('bad-response', /has 101 issuers, more than 100\. Delete expired/))
  assert.equal(server.calls.length, asked + 1)
  fault.behaviour = async () => ({ status: 200, body: { data: { keys: [] } } })
  await assert.rejects(trustBundle(), isCAError('bad-response', /has no root. Import the root/))
})

test('without credentials there is nothing to ask with, and names are names', async t => {
  const { context, config } = await setUp(t)
  const { credentials: _, ...bare } = context
  await assert.rejects(
    async () => vault.create(bare, config),
    (error: unknown) => error instanceof TypeError && /Set tokenFile/.test(error.message),
  )
  const { mount, role } = vault.options
  for (const bad of ['/pki', 'pki/', 'a//b', '..', 'a/../b', 'a b', '', 'a?b']) assert.ok(mount.problem(bad), bad)
  for (const good of ['pki', 'team/pki', 'pki-1.2_3']) assert.equal(mount.problem(good), undefined)
  assert.ok(role.problem('a/b'))
})

test('credentials that are per identity lead to a login for each identity, never to a shared one', async t => {
  const kubernetes = { ...kubernetesOf(3600), jwts: new Set(['of-web', 'of-api']) }
  const { context, config, server, count, leases } = await setUp(t, { config: LOGIN, kubernetes })
  assert.equal(leases.size, 0)
  const credentials = {
    description: 'the token of the workload',
    isPerIdentity: true,
    get: async ({ identity }: CredentialRequest) => ({ token: `of-${identity?.split('/').at(-1)}` }),
  }
  const client = await vault.create({ ...context, credentials }, config)
  t.after(() => client[Symbol.asyncDispose]())
  for (const name of ['web', 'api', 'web', 'api'] as const)
    await client.issue(await workloadRequest(`spiffe://cluster.local/ns/default/sa/${name}`))
  assert.equal(count('/login'), 2)
  const signed = server.calls.filter(({ path }) => path.includes('/sign/'))
  const [web, api, ...again] = signed.map(({ headers }) => headers['x-vault-token'])
  assert.notEqual(web, api)
  assert.deepEqual(again, [web, api])
})

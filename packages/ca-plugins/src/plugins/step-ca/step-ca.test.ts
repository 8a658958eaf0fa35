import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import {
  type AgentKey,
  CAError,
  type CAErrorCode,
  OptionError,
  SystemClock,
  type WorkloadTokenRequest,
} from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { isCAError } from '../../../test/citadel-setup.ts'
import type { JsonCall, JsonReply } from '../../../test/json-ca-server.ts'
import {
  encrypted,
  fingerprintOf,
  PROVISIONER,
  provisionerPair,
  startStepCa,
  writeKey,
} from '../../../test/step-ca-stand-in.ts'
import { FakeCA } from '../../conformance/index.ts'
import { workloadToken } from '../../credentials/index.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import type { StepCaConfig } from './config.ts'
import { stepCa } from './index.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const { privateJwk, publicJwk } = await provisionerPair()

async function setUp(t: TestContext, options: { readonly tls?: true; readonly config?: Partial<StepCaConfig> } = {}) {
  // TLS goes by the time of the machine.
  const clock = options.tls ? new SystemClock() : new FakeClock()
  if (clock instanceof SystemClock) t.after(() => clock[Symbol.dispose]())
  const ca = await FakeCA.create({ clock })
  t.after(() => ca[Symbol.dispose]())
  const fault: { behaviour?: (call: JsonCall) => Promise<JsonReply> } = {}
  const server = await startStepCa({
    ca,
    clock,
    provisioner: publicJwk,
    behaviour: call => fault.behaviour?.(call),
    ...(options.tls && { tls: await ca.serverCertificate() }),
  })
  t.after(() => server[Symbol.asyncDispose]())
  const folder = temporaryFolder(t)
  const context = pluginContext({ clock })
  const jwkFile = await writeKey(join(folder, 'key.json'), privateJwk)
  const config = { address: server.address, provisioner: PROVISIONER, jwkFile, ...options.config }
  const client = await stepCa.create(context, config)
  t.after(() => client[Symbol.asyncDispose]())
  const tokens = () => server.calls.map(({ json }) => String(json['ott'] ?? ''))
  return { ca, clock, server, folder, context, config, client, fault, jwkFile, tokens }
}

test('each token is new, of the key, for one identity and CSR, and lives five minutes', async t => {
  const { client, clock, server, tokens } = await setUp(t)
  const request = await workloadRequest(WEB, { ttlSeconds: 90, dnsNames: ['web.example'] })
  await client.issue(request)
  await client.issue(request)
  const [first = '', second = ''] = tokens()
  const { jti, sans, cnf, ...claims } = decodeJwt(first)
  const now = Math.floor(clock.now() / 1000)
  const aud = `${server.address}/1.0/sign`
  assert.deepEqual(claims, { iss: PROVISIONER, sub: WEB, aud, iat: now, nbf: now, exp: now + 300 })
  assert.deepEqual(sans, [WEB, 'web.example'])
  assert.ok(cnf)
  assert.notEqual(jti, decodeJwt(second).jti)
  assert.deepEqual(decodeProtectedHeader(first), { alg: 'ES256', kid: publicJwk.kid, typ: 'JWT' })
  assert.equal(server.calls[0]?.json['notAfter'], '90s')
})

test('a key that is replaced on disk signs the next token, and one with a password needs its own', async t => {
  const { client, jwkFile, tokens } = await setUp(t)
  const another = await provisionerPair('RS256')
  await client.issue(await workloadRequest(WEB))
  await writeKey(jwkFile, another.privateJwk)
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unauthenticated'))
  assert.deepEqual(
    tokens().map(token => decodeProtectedHeader(token).kid),
    [publicJwk.kid, another.publicJwk.kid],
  )
})

test('a key with a password is opened in both forms that step writes', async t => {
  const { context, config, folder, jwkFile } = await setUp(t)
  const passwordFile = join(folder, 'password')
  await writeFile(passwordFile, 'two words\n')
  for (const form of ['compact', 'json'] as const) {
    await writeFile(jwkFile, await encrypted(privateJwk, 'two words', form))
    await using client = await stepCa.create(context, { ...config, passwordFile })
    assert.equal((await client.issue(await workloadRequest(WEB))).chain.length, 3)
  }
})

test('a key that cannot be used says why and what to do, keeps its secret, and the CA is not asked', async t => {
  const { context, config, folder, server } = await setUp(t)
  const passwordFile = join(folder, 'password')
  await writeFile(passwordFile, 'wrong-password')
  const locked = await encrypted(privateJwk, 'right-password', 'compact')
  const { d = '', ...onlyPublic } = privateJwk
  const cases: readonly (readonly [string, string | undefined, RegExp])[] = [
    ['', undefined, /is neither a JWK nor an encrypted one.*Export the private JWK/],
    ['{"keys": []}', undefined, /is neither a JWK/],
    [JSON.stringify(onlyPublic), undefined, /no private key/],
    [JSON.stringify({ kty: 'oct', k: d }), undefined, /no private key/],
    [JSON.stringify({ ...privateJwk, d: 'AAAA' }), undefined, /is not a key for ES256/],
    [locked, undefined, /is encrypted. Set passwordFile/],
    [locked, passwordFile, /the password does not open it. Correct the password/],
    [JSON.stringify(privateJwk), join(folder, 'none'), /ENOENT.*correct passwordFile/],
    ['x'.repeat(65_537), undefined, /more than 65536/],
  ]
  for (const [index, [text, password, message]] of cases.entries()) {
    const jwkFile = join(folder, `key-${index}`)
    await writeFile(jwkFile, text)
    const files = { jwkFile, ...(password !== undefined && { passwordFile: password }) }
    await using client = await stepCa.create(context, { ...config, ...files })
    await assert.rejects(client.issue(await workloadRequest(WEB)), (error: unknown) => {
      assert.ok(!inspect(error, { depth: 10, showHidden: true }).includes(d))
      return isCAError('unauthenticated', message)(error)
    })
  }
  assert.equal(server.calls.length, 0)
})

test('with a token per identity each certificate is asked for with that of its own workload', async () => {
  const clock = new FakeClock()
  using ca = await FakeCA.create({ clock })
  ca.fault = ({ token, identity }) =>
    token?.startsWith(`of ${identity} `) ? { kind: 'none' } : { kind: 'refuse', code: 'unauthenticated' }
  await using server = await startStepCa({ ca, clock })
  const own = pluginContext({ clock })
  let count = 0
  const workloadTokens = {
    get: async ({ identity, audience }: WorkloadTokenRequest) => ({
      token: `of ${identity === API ? WEB : identity} for ${audience} ${++count}`,
    }),
  }
  const credentials = await workloadToken.create({ ...own, workloadTokens }, { audience: 'step-ca' })
  await using client = await stepCa.create({ ...own, credentials }, { address: server.address })
  const DB = 'spiffe://cluster.local/ns/default/sa/db'
  const issued = await Promise.all([WEB, DB].map(async each => client.issue(await workloadRequest(each))))
  assert.deepEqual(
    issued.map(({ chain: [leaf = ''] }) => new X509Certificate(leaf).subjectAltName),
    [WEB, DB].map(each => `URI:${each}`),
  )
  // The token of another workload is not good for it.
  await assert.rejects(client.issue(await workloadRequest(API)), isCAError('unauthenticated', /the workload's account/))
  const sent = server.calls.map(({ json }) => String(json['ott']).replace(/ \d+$/, ''))
  assert.deepEqual(sent.sort(), [`of ${DB} for step-ca`, `of ${WEB} for step-ca`, `of ${WEB} for step-ca`])
})

const FORBIDDEN = 'The request was forbidden by the certificate authority:'
const statuses: readonly (readonly [number, string, CAErrorCode, boolean, RegExp])[] = [
  [400, 'The request could not be completed: invalid csr.', 'invalid-csr', false, /key type/],
  [401, 'The request lacked necessary authorization to be completed.', 'unauthenticated', true, /dnsNames/],
  [403, `${FORBIDDEN} requested duration of 2h is more than the authorized maximum`, 'ttl-too-long', false, /shorter/],
  [403, `${FORBIDDEN} requested duration of 1s is less than the authorized minimum`, 'denied', false, /longer ttl/],
  [403, `${FORBIDDEN} certificate request RSA key must be at least 2048 bits`, 'invalid-csr', false, /key type/],
  [403, `${FORBIDDEN} uri not allowed.`, 'denied', false, /policy/],
  [404, '', 'unavailable', false, /address belongs to a step-ca/],
  [405, '', 'unavailable', false, /address belongs to a step-ca/],
  [307, '', 'unavailable', true, /log of the CA/],
  [429, '', 'rate-limited', true, /retries later/],
  [500, 'The certificate authority encountered an Internal Server Error.', 'unavailable', true, /log of the CA/],
  [501, '', 'unavailable', false, /step-ca/],
  [502, '', 'unavailable', true, /log of the CA/],
  [503, '', 'unavailable', true, /log of the CA/],
]
for (const [status, message, code, retryable, remedy] of statuses)
  test(`HTTP ${status} ${JSON.stringify(message)} is ${code}, asked once, with a remedy`, async t => {
    const { client, fault, server } = await setUp(t)
    fault.behaviour = async () => ({ status, body: { status, message } })
    await assert.rejects(client.issue(await workloadRequest(WEB)), (error: unknown) => {
      assert.ok(error instanceof CAError && error.message.includes(`HTTP ${status}`))
      assert.equal(error.retryable, retryable)
      return isCAError(code, remedy)(error)
    })
    assert.equal(server.calls.length, 1)
  })

test('answers that are not certificates are bad responses, for the roots too', async t => {
  const { client, fault, ca } = await setUp(t)
  const root = ca.trustBundle()[0] ?? ''
  const bad = 'MIIB'
  const pem = `-----BEGIN CERTIFICATE-----\n${bad}\n-----END CERTIFICATE-----\n`
  const large = `-----BEGIN CERTIFICATE-----\n${'A'.repeat(70_000)}\n-----END CERTIFICATE-----\n`
  const unusable = isCAError('bad-response', /Check that the address belongs to a step-ca\.$/)
  for (const list of [undefined, 'x', [1], [''], [root, pem], Array(11).fill(root), [root, large]]) {
    fault.behaviour = async () => ({ status: 201, body: { certChain: list, crts: list } })
    await assert.rejects(client.issue(await workloadRequest(WEB)), unusable)
  }
  for (const list of [undefined, 'x', [1], [''], [pem], [], Array(101).fill(root)]) {
    fault.behaviour = async () => ({ status: 201, body: { crts: list } })
    await assert.rejects(async () => client.trustBundle?.({ signal: t.signal }), unusable)
  }
})

test('the root is fetched by its fingerprint once, with colons or without, and another one is not taken', async t => {
  const { ca, context, config, server, fault } = await setUp(t, { tls: true })
  const fingerprint = fingerprintOf(ca.trustBundle()[0] ?? '')
  const open = async (text: string) => {
    const client = await stepCa.create(context, { ...config, fingerprint: text })
    t.after(() => client[Symbol.asyncDispose]())
    return client
  }
  const client = await open((fingerprint.match(/../g) ?? []).join(':').toUpperCase())
  const issued = await Promise.all([1, 2].map(async () => client.issue(await workloadRequest(WEB))))
  assert.equal(new X509Certificate(issued[0]?.chain[0] ?? '').subjectAltName, `URI:${WEB}`)
  assert.equal(server.calls.filter(({ path }) => path.split('/')[1] === 'root').length, 1)
  fault.behaviour = async () => ({ status: 200, body: { ca: ca.trustBundle()[0] } })
  const deceived = await open('a'.repeat(64))
  await assert.rejects(
    deceived.issue(await workloadRequest(WEB)),
    isCAError('unavailable', /it answered with another certificate. Check fingerprint and address/),
  )
})

const END = '-----END CERTIFICATE-----'
const between: readonly (readonly [string, (legit: string, evil: string) => string])[] = [
  ['behind it', (legit, evil) => legit + evil],
  ['within its text', (legit, evil) => legit.replace(END, `${END}\n${evil.trim()}`)],
  ['under the label X509', (legit, evil) => legit + evil.replaceAll('CERTIFICATE', 'X509 CERTIFICATE')],
  ['under the label TRUSTED', (legit, evil) => legit + evil.replaceAll('CERTIFICATE', 'TRUSTED CERTIFICATE')],
]
for (const [where, join] of between)
  test(`a server without the key of the pinned root gets no token with another root ${where}`, async t => {
    const { ca, server, context, config, fault } = await setUp(t, { tls: true })
    const legit = await FakeCA.create({ clock: context.clock })
    t.after(() => legit[Symbol.dispose]())
    const [pinned = '', evil = ''] = [...legit.trustBundle(), ...ca.trustBundle()]
    fault.behaviour = call =>
      call.path.split('/')[1] === 'root'
        ? Promise.resolve({ status: 200, body: { ca: join(pinned, evil) } })
        : Promise.resolve({ status: 404 })
    const client = await stepCa.create(context, { ...config, fingerprint: fingerprintOf(pinned) })
    t.after(() => client[Symbol.asyncDispose]())
    await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable', /certificate|self-signed/))
    await assert.rejects(async () => client.trustBundle?.({ signal: t.signal }), isCAError('unavailable'))
    assert.deepEqual(
      server.calls.map(({ path }) => path.split('/')[1]),
      ['root'],
    )
  })

test('values that do not go together are refused by their names', async t => {
  const { context, config } = await setUp(t)
  const { jwkFile, provisioner, ...bare } = config
  const fingerprint = 'a'.repeat(64)
  const cases: readonly (readonly [readonly AgentKey[], StepCaConfig, RegExp])[] = [
    [[], { ...bare, provisioner }, /provisioner "livery@example": jwkFile is missing/],
    [[], { ...bare, jwkFile }, /jwkFile ".*": provisioner is missing/],
    [[], { ...bare, passwordFile: '/p' }, /passwordFile "\/p": jwkFile is missing/],
    [['rootCert'], { ...config, fingerprint }, /fingerprint "a+": rootCert or clientCertificate is set/],
    [[], { ...config, fingerprint }, /fingerprint "a+": address has no TLS/],
  ]
  for (const [beside, values, message] of cases)
    assert.throws(
      () => stepCa.check?.(values, new Set(beside)),
      (error: unknown) =>
        error instanceof OptionError &&
        error.message.startsWith(`Cannot use ${error.option} `) &&
        message.test(error.message),
    )
  await assert.rejects(
    async () => stepCa.create(context, bare),
    /it has no proof of identity. Set provisioner and jwkFile, or/,
  )
  const { problem } = stepCa.options.fingerprint
  assert.match(problem('abc') ?? '', /64 hexadecimal digits/)
})

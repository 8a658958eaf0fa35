import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { type CAErrorCode, OptionError, type PluginOption } from '@livery/core/plugin'
import { API, isCAError, setUpCitadel, WEB } from '../../../test/citadel-setup.ts'
import type { CaBehaviour } from '../../testing/faulty-ca-server.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { encodeResponse } from '../../transport/istio-certificate-service.ts'
import type { CitadelConfig } from './config.ts'
import { citadel } from './index.ts'

test('the chain is passed on unchanged, with the root apart', async t => {
  const { client, server } = await setUpCitadel(t)
  const request = await workloadRequest(WEB)
  const { chain, roots, privateKey } = await client.issue(request)
  assert.equal(chain.length, 1)
  const leaf = new X509Certificate(chain[0] ?? '')
  assert.equal(leaf.subjectAltName, `URI:${WEB}`)
  assert.ok(leaf.checkPrivateKey(createPrivateKey(request.privateKeyPem)))
  assert.deepEqual(roots, server.authority.trustBundle())
  assert.equal(privateKey, undefined)
})

test('the request carries the CSR, the lifetime, the token and nothing that is not configured', async t => {
  const { client, server } = await setUpCitadel(t)
  const request = await workloadRequest(WEB, { ttlSeconds: 1234 })
  await client.issue(request)
  const [call] = server.calls
  assert.equal(call?.request.csr, request.csrPem)
  assert.equal(call?.request.validityDuration, 1234n)
  assert.equal(call?.request.metadata, undefined)
  assert.equal(call?.headers['authorization'], 'Bearer token-1')
  assert.equal(call?.headers['clusterid'], undefined)
})

test('cluster, headers, signer and impersonated identity are sent as Istio names them', async t => {
  const { client, server } = await setUpCitadel(t, {
    config: () => ({
      clusterId: 'Kubernetes',
      headers: { 'X-Tenant': 'blue' },
      certSigner: 'istio-system',
      impersonate: true,
    }),
  })
  await client.issue(await workloadRequest(API))
  const [call] = server.calls
  assert.equal(call?.headers['clusterid'], 'Kubernetes')
  assert.equal(call?.headers['x-tenant'], 'blue')
  assert.deepEqual(
    call?.request.metadata?.fields,
    new Map([
      ['CertSigner', { kind: { $case: 'stringValue', value: 'istio-system' } }],
      ['ImpersonatedIdentity', { kind: { $case: 'stringValue', value: API } }],
    ]),
  )
})

test('who asks for others names the cluster that istiod has by default: without one it lets nobody impersonate', async t => {
  for (const [clusterId, sent] of [
    [undefined, 'Kubernetes'],
    ['east', 'east'],
  ] as const) {
    const named = clusterId === undefined ? {} : { clusterId }
    const { client, server } = await setUpCitadel(t, { config: () => ({ ...named, impersonate: true }) })
    await client.issue(await workloadRequest(API))
    assert.equal(server.calls[0]?.headers['clusterid'], sent)
  }
})

test('with impersonation one client gets certificates for many workloads at once, over one connection', async t => {
  const { client, server } = await setUpCitadel(t, { config: () => ({ impersonate: true }) })
  const identities = Array.from({ length: 20 }, (_, i) => `spiffe://cluster.local/ns/load/sa/sa-${i}`)
  const requests = await Promise.all(identities.map(identity => workloadRequest(identity, { csrUri: WEB })))
  const issued = await Promise.all(requests.map(request => client.issue(request)))
  assert.deepEqual(
    issued.map(({ chain }) => new X509Certificate(chain[0] ?? '').subjectAltName),
    identities.map(identity => `URI:${identity}`),
  )
  assert.equal(server.connections, 1)
})

const passedThrough: readonly CaBehaviour[] = [
  { kind: 'wrong-san', identity: API },
  { kind: 'wrong-key' },
  { kind: 'expired' },
]
for (const behaviour of passedThrough)
  test(`an answer that is ${behaviour.kind} is passed on: the SecretManager checks it for every CA`, async t => {
    const { client, server } = await setUpCitadel(t)
    server.behaviour = behaviour
    const request = await workloadRequest(WEB)
    const leaf = new X509Certificate((await client.issue(request)).chain[0] ?? '')
    assert.equal(leaf.subjectAltName, `URI:${behaviour.kind === 'wrong-san' ? API : WEB}`)
    assert.equal(leaf.checkPrivateKey(createPrivateKey(request.privateKeyPem)), behaviour.kind !== 'wrong-key')
    assert.equal(leaf.validToDate.getTime() < Date.now(), behaviour.kind === 'expired')
  })

test('a leaf that cannot be parsed, or is a root, is passed on as well', async t => {
  const { client, server } = await setUpCitadel(t)
  for (const wrongLeaf of [garbagePem(), server.authority.trustBundle()[0] ?? '']) {
    server.behaviour = { kind: 'sign', chain: ([, root = '']) => [wrongLeaf, root] }
    assert.equal((await client.issue(await workloadRequest(WEB))).chain[0], wrongLeaf)
  }
})

const unusable: readonly (readonly [string, CaBehaviour, RegExp])[] = [
  ['empty', { kind: 'sign', chain: () => [] }, /has 0 elements/],
  ['the leaf alone', { kind: 'sign', chain: ([leaf = '']) => [leaf] }, /has 1 elements/],
  ['no PEM', { kind: 'sign', chain: ([leaf = '']) => [leaf, 'hello'] }, /no PEM certificate in element 1/],
  [
    'PEM of garbage',
    { kind: 'sign', chain: ([leaf = '']) => [leaf, garbagePem()] },
    /a certificate that cannot be parsed/,
  ],
  ['no protobuf', { kind: 'answer-bytes', bytes: Buffer.from([0xff, 0xff]) }, /is not an IstioCertificateResponse/],
  ['no bytes', { kind: 'answer-bytes', bytes: Buffer.alloc(0) }, /has 0 elements/],
  [
    'eleven certificates',
    { kind: 'sign', chain: ([leaf = '', r = '']) => [leaf, ...Array(10).fill(r)] },
    /has 11 elements/,
  ],
  [
    'an element over 64 kB',
    { kind: 'sign', chain: ([leaf = '', root = '']) => [leaf, root.padEnd(65_537)] },
    /element of 65537 characters/,
  ],
  [
    'over 1 MB',
    { kind: 'answer-bytes', bytes: encodeResponse({ certChain: ['x'.repeat(1_048_577)] }) },
    /larger than max/,
  ],
]
for (const [what, behaviour, reason] of unusable)
  test(`an answer that is ${what} is a bad-response, which may be asked again`, async t => {
    const { client, server } = await setUpCitadel(t)
    server.behaviour = behaviour
    await assert.rejects(client.issue(await workloadRequest(WEB)), (error: unknown) => {
      assert.match(String(error), new RegExp(`a certificate for ${WEB} from the CA at ${server.address}`))
      return isCAError('bad-response', reason)(error)
    })
  })

const codes: readonly (readonly [status, string, CAErrorCode, boolean])[] = [
  [status.CANCELLED, 'x', 'unavailable', true],
  [status.UNKNOWN, 'x', 'unavailable', true],
  [status.INVALID_ARGUMENT, 'CSR signing error (cannot parse the request)', 'invalid-csr', false],
  [status.INVALID_ARGUMENT, 'requested TTL 4000h is greater than the max allowed TTL 2160h', 'ttl-too-long', false],
  [status.DEADLINE_EXCEEDED, 'x', 'timeout', true],
  [status.NOT_FOUND, 'x', 'unavailable', true],
  [status.ALREADY_EXISTS, 'x', 'unavailable', true],
  [status.PERMISSION_DENIED, 'x', 'denied', false],
  [status.RESOURCE_EXHAUSTED, 'x', 'rate-limited', true],
  [status.FAILED_PRECONDITION, 'x', 'unavailable', true],
  [status.ABORTED, 'x', 'unavailable', true],
  [status.OUT_OF_RANGE, 'x', 'unavailable', true],
  [status.UNIMPLEMENTED, 'x', 'unavailable', false],
  [status.INTERNAL, 'x', 'unavailable', true],
  [status.UNAVAILABLE, 'x', 'unavailable', true],
  [status.DATA_LOSS, 'x', 'unavailable', true],
  [status.UNAUTHENTICATED, 'request authenticate failure', 'unauthenticated', true],
  [status.UNAUTHENTICATED, 'request impersonation authentication failure', 'unauthenticated', true],
]
for (const [grpcCode, details, code, retryable] of codes)
  test(`${status[grpcCode]} "${details}" is ${code}, asked once, and comes with the CA's words and a remedy`, async t => {
    const { client, server } = await setUpCitadel(t)
    server.behaviour = { kind: 'refuse', code: grpcCode, details }
    await assert.rejects(client.issue(await workloadRequest(WEB)), (error: unknown) => {
      isCAError(code, / [A-Z_]+: .*\. [A-Z].*\.$/)(error)
      assert.ok(String(error).includes(`${status[grpcCode]}: ${details}. `), String(error))
      assert.equal(Object(error).retryable, retryable)
      return true
    })
    assert.equal(server.calls.length, 1)
  })

const ACCOUNT = { namespace: 'livery-system', serviceaccount: { name: 'livery' } }
for (const [what, token, remedy] of [
  ['no JWT', 'token-1', /Let the CA trust this node \(istiod: CA_TRUSTED_NODE_ACCOUNTS\), and check that a pod/],
  [
    'of a bound account',
    jwtOf({ ...ACCOUNT, pod: { name: 'livery-1' } }),
    /Let the CA trust the account livery-system\/livery \(istiod: CA_TRUSTED_NODE_ACCOUNTS\)/,
  ],
  [
    'of an unbound account',
    jwtOf(ACCOUNT),
    /token of the agent's own pod, as kubelet mounts it: the token in .*token is bound to no pod/,
  ],
] as const)
  test(`a refused impersonation with a token that is ${what} comes with what to do about that`, async t => {
    const { client, server, directory } = await setUpCitadel(t, { config: () => ({ impersonate: true }) })
    await writeFile(join(directory, 'token'), token)
    const details = 'request impersonation authentication failure'
    server.behaviour = { kind: 'refuse', code: status.UNAUTHENTICATED, details }
    await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unauthenticated', remedy))
  })

/** As the API server makes the token of a service account, without a signature. */
function jwtOf(account: object): string {
  const parts = [{ alg: 'none' }, { 'kubernetes.io': account }]
  return `${parts.map(part => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')}.c2ln`
}

test('the wait that the CA asks for comes along', async t => {
  const { client, server } = await setUpCitadel(t)
  server.behaviour = { kind: 'refuse', code: status.RESOURCE_EXHAUSTED, retryAfterMs: 2500 }
  await assert.rejects(client.issue(await workloadRequest(WEB)), { code: 'rate-limited', retryAfterMs: 2500 })
})

test('a token that the CA sends back is not in the error', async t => {
  const { client, server } = await setUpCitadel(t)
  server.behaviour = {
    kind: 'refuse',
    code: status.UNAUTHENTICATED,
    details: 'token-1 is bad, Bearer another.one too, eyJhbGciOiJSUzI1NiJ9.eyJhIjoxfQ.c2ln as well\nforged log line',
  }
  await assert.rejects(client.issue(await workloadRequest(WEB)), (error: Error) => {
    assert.doesNotMatch(`${error.stack} ${JSON.stringify(error)} ${error.cause}`, /token-1|another\.one|eyJ|\nforged/)
    return isCAError('unauthenticated', /the token in .*token/)(error)
  })
})

test('a CA that does not answer is a timeout, and the call is given up', async t => {
  const { client, server, clock } = await setUpCitadel(t)
  server.behaviour = { kind: 'hang' }
  const arrived = server.nextCall()
  const issuing = assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('timeout', /within 10000 ms/))
  await arrived
  await clock.advance(9_999)
  await clock.advance(1)
  await issuing
  assert.deepEqual(clock.deadlines(), [])
})

test('an aborted request rejects with the reason of its signal: before, during the CSR, and during the call', async t => {
  const { client, server, clock } = await setUpCitadel(t)
  server.behaviour = { kind: 'hang' }
  const reason = new Error('nobody waits')
  await assert.rejects(client.issue(await workloadRequest(WEB, { signal: AbortSignal.abort(reason) })), reason)

  const slow = new AbortController()
  const request = { ...(await workloadRequest(WEB, { signal: slow.signal })), csr: () => new Promise<never>(() => {}) }
  const making = assert.rejects(client.issue(request), reason)
  slow.abort(reason)
  await making
  assert.equal(server.calls.length, 0)

  const abort = new AbortController()
  const arrived = server.nextCall()
  const issuing = assert.rejects(client.issue(await workloadRequest(WEB, { signal: abort.signal })), reason)
  await arrived
  abort.abort(reason)
  await issuing
  assert.deepEqual(clock.deadlines(), [])
})

test('a CSR that cannot be made rejects with its error, and the CA is not asked', async t => {
  const { client, server } = await setUpCitadel(t)
  const error = new Error('no key')
  await assert.rejects(client.issue({ ...(await workloadRequest(WEB)), csr: () => Promise.reject(error) }), error)
  assert.equal(server.calls.length, 0)
})

test('closing rejects the open calls and every later one, twice is fine', async t => {
  const { client, server } = await setUpCitadel(t)
  server.behaviour = { kind: 'hang' }
  const arrived = server.nextCall()
  const closed = isCAError('unavailable', /its client is closed/)
  const issuing = assert.rejects(client.issue(await workloadRequest(WEB)), closed)
  await arrived
  await client[Symbol.asyncDispose]()
  await client[Symbol.asyncDispose]()
  await issuing
  await assert.rejects(client.issue(await workloadRequest(WEB)), closed)
})

test('a closed client leaves no connection and no timer', async t => {
  const { client, server, clock } = await setUpCitadel(t)
  await client.issue(await workloadRequest(WEB))
  await client[Symbol.asyncDispose]()
  await server.disconnected()
  assert.deepEqual(clock.deadlines(), [])
})

const unacceptable: readonly (readonly [keyof CitadelConfig, string, RegExp])[] = [
  ['address', 'istiod', /^is not of the form "host:port"/],
  ['address', 'http://istiod:15012', /^is not of the form/],
  ['address', 'istiod:0', /^has port 0/],
  ['address', 'istiod:70000', /^is not of the form .*at most 65535/],
  ['serverName', 'https://istiod', /^is not a DNS name/],
  ['clusterId', 'two words', /^is empty or has other/],
  ['certSigner', '', /^is empty/],
  ['certSigner', 'a b', /without spaces/],
]
for (const [name, value, reason] of unacceptable)
  test(`the option ${name} has a problem with ${JSON.stringify(value)}`, () => {
    const option: PluginOption = citadel.options[name]
    assert.ok(option.type === 'string')
    assert.match(option.problem?.(value) ?? '', reason)
  })

test('the options have no problem with what Istio writes', () => {
  const { address, serverName, clusterId } = citadel.options
  for (const value of ['istiod.istio-system.svc:15012', 'https://istiod:15012/', '[::1]:15010'])
    assert.equal(address.problem(value), undefined)
  assert.equal(serverName.problem('istiod.istio-system.svc'), undefined)
  assert.equal(clusterId.problem('Kubernetes'), undefined)
})

const config: CitadelConfig = { address: 'istiod:15012', impersonate: false }

const misconfigured: readonly (readonly [Partial<CitadelConfig>, RegExp])[] = [
  [{ headers: { Authorization: 'x' } }, /headers\.Authorization "…": this header is set by the plugin/],
  [{ headers: { 'bad name': 'x' } }, /headers\.bad name "…": its name/],
  [{ headers: { 'x-secret': 'hush\n' } }, /headers\.x-secret "…": its value is not printable/],
]
for (const [changed, reason] of misconfigured)
  test(`a header that cannot be sent is refused by its name, without its value: ${JSON.stringify(changed)}`, () =>
    assert.throws(
      () => citadel.check?.({ ...config, ...changed }, new Set(['rootCert'])),
      (error: unknown) => {
        assert.ok(error instanceof OptionError && error.option === 'headers')
        assert.match(error.message, reason)
        assert.doesNotMatch(error.message, /hush/)
        return true
      },
    ))

test('DNS names are for a CA that gives them by its grants', () => {
  const check = (more: Partial<CitadelConfig>) =>
    citadel.check?.({ ...config, ...more }, new Set(['rootCert', 'dnsNames']))
  assert.throws(() => check({}), { option: 'dnsNames', message: /istiod and istio-csr give no DNS names\. Remove/ })
  check({ dnsNames: true })
})

test('only a connection without TLS needs no root', () => {
  const check = (address: string) => citadel.check?.({ ...config, address }, new Set(['clientCertificate']))
  check('istiod:15010')
  assert.throws(() => check('istiod:15012'), { option: 'rootCert', message: /without rootCert\. Name .*"system"/ })
})

function garbagePem(): string {
  return '-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n'
}

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect as connectHttp2 } from 'node:http2'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { connect } from 'node:tls'
import { ChannelCredentials, status } from '@grpc/grpc-js'
import { pemToDer, type SpiffeId, SystemClock } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import { API, createCitadel, WEB } from '../../test/citadel-setup.ts'
import { type Ask, ask, askAt, type CaServerSetup, setUpCaServer } from '../../test/istio-ca-server-setup.ts'
import { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'
import { pluginContext } from '../testing/plugin-context.ts'
import { workloadRequest } from '../testing/workload-request.ts'
import { clientCertificates, listedTokens, staticTokens, type TokenGrant } from './authenticators.ts'
import type { IstioCaServerEvent } from './istio-ca-server.ts'

const NODE: SpiffeId = 'spiffe://cluster.local/ns/kube-system/sa/livery'
const authenticators = [
  staticTokens([
    { token: 'web-token', identity: WEB },
    { token: 'node-token', identity: NODE, impersonates: [WEB, API] },
  ]),
]

function nameOf([leaf = '']: readonly string[]): string | undefined {
  return new X509Certificate(leaf).subjectAltName
}

test('the SAN is that of the caller, not that of the CSR', async t => {
  const setup = await setUpCaServer(t, { authenticators })
  assert.equal(nameOf(await ask(setup, { token: 'web-token' })), `URI:${WEB}`)
})

test('a caller has the DNS names of its CSR that are granted to it, those that a wildcard stands for too, and no others', async t => {
  const granted = ['web.example', '*.web.example']
  let grants: readonly TokenGrant[] = [
    { token: 'web-token', identity: WEB, dnsNames: granted },
    { token: 'api-token', identity: API },
  ]
  const setup = await setUpCaServer(t, { authenticators: [listedTokens(async () => grants)] })
  const askFor = async (token: string, ...dnsNames: readonly string[]) =>
    nameOf(await ask(setup, { token, csr: (await workloadRequest(WEB, { dnsNames })).csrPem }))
  const names = `URI:${WEB}, DNS:*.web.example, DNS:a.web.example`
  assert.equal(await askFor('web-token', '*.web.example', 'a.web.example'), names)
  for (const [token, name] of [
    ['web-token', 'a.b.web.example'],
    ['web-token', '*.example'],
    ['web-token', 'other.example'],
    ['api-token', 'web.example'],
  ] as const)
    await assert.rejects(askFor(token, name), { code: status.PERMISSION_DENIED, details: /may not have the DNS name/ })
  await assert.rejects(askFor('web-token', 'not_a_name'), { code: status.INVALID_ARGUMENT })
  grants = [{ token: 'web-token', identity: WEB }]
  await assert.rejects(askFor('web-token', 'web.example'), { code: status.PERMISSION_DENIED })
})

test('the chain is one certificate an element, the leaf first and the root that signs last', async t => {
  const setup = await setUpCaServer(t, { authenticators }, { intermediate: true })
  const [oldRoot] = setup.authority.trustBundle()
  const chain = await ask(setup, { token: 'web-token' })
  assert.equal(chain.length, 3)
  assert.equal(chain[2], oldRoot)
  for (const element of chain) assert.equal(element.match(/BEGIN CERTIFICATE/g)?.length, 1)
  const newRoot = await setup.authority.addRoot()
  await setup.authority.switchTo(newRoot)
  const rotated = await ask(setup, { token: 'web-token' })
  assert.deepEqual(rotated.slice(2), setup.authority.trustBundle())
})

test("no token, an unknown one, or a server without authenticators: UNAUTHENTICATED, in istiod's words", async t => {
  const failure = { code: status.UNAUTHENTICATED, details: 'request authenticate failure' }
  const setup = await setUpCaServer(t, { authenticators })
  await assert.rejects(ask(setup), failure)
  await assert.rejects(ask(setup, { token: 'web-token-2' }), failure)
  await assert.rejects(ask(await setUpCaServer(t), { token: 'web-token' }), failure)
})

test('a node may ask for the identities that are listed for it, and for no others', async t => {
  const setup = await setUpCaServer(t, { authenticators })
  const failure = { code: status.UNAUTHENTICATED, details: 'request impersonation authentication failure' }
  assert.equal(nameOf(await ask(setup, { token: 'node-token', impersonate: API })), `URI:${API}`)
  assert.equal(nameOf(await ask(setup, { token: 'node-token', impersonate: '' })), `URI:${NODE}`)
  await assert.rejects(ask(setup, { token: 'node-token', impersonate: 'spiffe://cluster.local/ns/x/sa/y' }), failure)
  await assert.rejects(ask(setup, { token: 'node-token', impersonate: 'not a SPIFFE ID' }), failure)
  await assert.rejects(ask(setup, { token: 'web-token', impersonate: API }), failure)
  await assert.rejects(ask(setup, { token: 'web-token', impersonate: WEB }), failure)
})

test('a bad CSR and a lifetime beyond the maximum are INVALID_ARGUMENT with the reason', async t => {
  const setup = await setUpCaServer(t, { authenticators }, { maxTtlSeconds: 7200 })
  const token = 'web-token'
  const refusals: readonly (readonly [object, RegExp])[] = [
    [{ csr: 'garbage' }, /it is not PEM/],
    [{ csr: '-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----' }, /not a PKCS#10 request/],
    [{ csr: 'x'.repeat(30_000) }, /it is not PEM/],
    [{ ttlSeconds: 7201 }, /ttl of 7201 s is longer than this CA signs, 7200 s/],
    [{ ttlSeconds: Number.MAX_SAFE_INTEGER }, /ttl of/],
  ]
  for (const [options, details] of refusals)
    await assert.rejects(ask(setup, { token, ...options }), { code: status.INVALID_ARGUMENT, details })
})

test('a request without a lifetime gets the default', async t => {
  const setup = await setUpCaServer(t, { authenticators, defaultTtlSeconds: 600 })
  const [leaf = ''] = await ask(setup, { token: 'web-token', ttlSeconds: 0 })
  const seconds = (new X509Certificate(leaf).validToDate.getTime() - Date.now()) / 1000
  assert.ok(seconds > 590 && seconds <= 601, `${seconds}`)
})

test('an identity of another trust domain is PERMISSION_DENIED', async t => {
  const identity: SpiffeId = 'spiffe://other.example/ns/default/sa/web'
  const setup = await setUpCaServer(t, { authenticators: [staticTokens([{ token: 'x', identity }])] })
  await assert.rejects(ask(setup, { token: 'x' }), { code: status.PERMISSION_DENIED, details: /trust domain cluster/ })
})

test('a failure of the signing itself is INTERNAL', async t => {
  const clock = new FakeClock(Date.now())
  const setup = await setUpCaServer(t, { authenticators, clock }, { rootTtlSeconds: 1000 })
  clock.jump(1_001_000)
  await assert.rejects(ask(setup, { token: 'web-token' }), { code: status.INTERNAL, details: /has expired/ })
})

test("CSRs, refused callers and issued certificates are counted under istiod's names", async t => {
  const events: IstioCaServerEvent[] = []
  const setup = await setUpCaServer(t, { authenticators, observe: event => events.push(event) })
  await ask(setup, { token: 'web-token' })
  await assert.rejects(ask(setup, { token: 'wrong' }))
  await assert.rejects(ask(setup, { token: 'web-token', impersonate: API }))
  await assert.rejects(ask(setup, { token: 'web-token', csr: 'garbage' }))
  await assert.rejects(ask(setup, { token: 'web-token', ttlSeconds: 1e9 }))
  assert.deepEqual(setup.server.counts, {
    csr_count: 5,
    authentication_failure_count: 2,
    csr_parsing_err_count: 1,
    csr_sign_err_count: 1,
    success_cert_issuance_count: 1,
  })
  assert.equal(events.length, 10)
})

/** A CA server whose list of tokens can change, with a client for each certificate that it issues. */
async function setUpGrants(t: TestContext, ...first: readonly TokenGrant[]) {
  let grants = first
  const { authority } = await setUpCaServer(t)
  const current = async () => grants
  const { server } = await setUpCaServer(t, {
    authority,
    authenticators: [listedTokens(current), clientCertificates(authority, current)],
  })
  const setup = { server, authority, warnings: [] }
  return {
    setup,
    grant(...next: readonly TokenGrant[]) {
      grants = next
    },
    /** The certificate with its key that this caller is given. */
    async issue(caller: Ask) {
      const { csrPem, privateKeyPem } = await workloadRequest(WEB)
      return { certificate: (await ask(setup, { ...caller, csr: csrPem })).slice(0, -1).join(''), key: privateKeyPem }
    },
  }
}
const refused = { code: status.UNAUTHENTICATED, details: 'request authenticate failure' }
const WEB_GRANT = { token: 'of-web', identity: WEB }

test('a caller may renew with the certificate it has, again and again, unless another CA issued it', async t => {
  const { setup, issue } = await setUpGrants(t, WEB_GRANT)
  const first = await issue({ token: 'of-web' })
  const renewed = await issue({ client: first })
  assert.equal(nameOf(await ask(setup, { client: renewed })), `URI:${WEB}`)
  const other = await setUpGrants(t, WEB_GRANT)
  await assert.rejects(ask(setup, { client: await other.issue({ token: 'of-web' }) }), refused)
  await assert.rejects(ask(setup), refused)
})

test('once its token is revoked, no certificate of it renews itself, however far down the row', async t => {
  const { setup, grant, issue } = await setUpGrants(t, WEB_GRANT)
  const first = await issue({ token: 'of-web' })
  const renewed = await issue({ client: await issue({ client: first }) })
  grant({ token: 'of-api', identity: API })
  for (const client of [first, renewed]) await assert.rejects(ask(setup, { client }), refused)
  await assert.rejects(ask(setup, { token: 'of-web' }), refused)
})

test('another token for the identity does not renew what was issued under the stolen one', async t => {
  const { setup, grant, issue } = await setUpGrants(t, WEB_GRANT)
  const stolen = await issue({ token: 'of-web' })
  grant({ token: 'of-web-2', identity: WEB })
  await assert.rejects(ask(setup, { client: stolen }), refused)
  const own = await issue({ token: 'of-web-2' })
  assert.equal(nameOf(await ask(setup, { client: own })), `URI:${WEB}`)
  grant({ token: 'of-web-2', identity: WEB }, { token: 'of-api', identity: API })
  assert.equal(nameOf(await ask(setup, { client: own })), `URI:${WEB}`, 'a change of others is none of its own')
})

test('a token that is given to another identity renews neither', async t => {
  const { setup, grant, issue } = await setUpGrants(t, WEB_GRANT)
  const client = await issue({ token: 'of-web' })
  grant({ token: 'of-web', identity: API })
  await assert.rejects(ask(setup, { client }), refused)
})

test('a certificate that a node was given for a workload does not renew itself, with or without a token of the workload', async t => {
  const node = { token: 'of-node', identity: NODE, impersonates: [WEB] }
  const { setup, grant, issue } = await setUpGrants(t, node, WEB_GRANT)
  const client = await issue({ token: 'of-node', impersonate: WEB })
  await assert.rejects(ask(setup, { client }), refused)
  grant(node)
  await assert.rejects(ask(setup, { client }), refused)
  const own = await issue({ token: 'of-node' })
  assert.equal(nameOf(await ask(setup, { client: own })), `URI:${NODE}`)
})

test('a certificate that was issued without a token does not renew itself', async t => {
  const { setup } = await setUpGrants(t, WEB_GRANT)
  await assert.rejects(ask(setup, { client: await clientOf(setup, WEB) }), refused)
})

test('the grant is known after a restart of the CA and a change of its signing root', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  const clock = new SystemClock()
  t.after(() => clock[Symbol.dispose]())
  const open = () => CertificateAuthority.open({ clock, trustDomain: 'cluster.local', directory })
  const { csrDer } = await workloadRequest(WEB)
  const before = await open()
  const { chain } = await before.sign({ identity: WEB, csr: csrDer, ttlSeconds: 60, grant: 'a' })
  const der = pemToDer(chain[0] ?? '')
  const after = await open()
  await after.switchTo(await after.addRoot())
  assert.deepEqual([after.isIssuedUnder(der, 'a'), after.isIssuedUnder(der, 'b')], [true, false])
})

test('an empty or repeated static token is a TypeError without the token', () => {
  assert.throws(() => staticTokens([{ token: '', identity: WEB }]), { name: 'TypeError', message: /it is empty/ })
  const twice = [WEB, API].map(identity => ({ token: 'hush', identity }))
  assert.throws(
    () => staticTokens(twice),
    (error: Error) => {
      assert.match(error.message, /the token of .*api: another caller has it too/)
      assert.doesNotMatch(error.message, /hush/)
      return error instanceof TypeError
    },
  )
})

test("its TLS certificate is from its own CA, also for istiod's name, and is renewed at half of its life", async t => {
  // So that what is issued half a life later is valid on the machine's clock.
  const clock = new FakeClock(Date.now() - 500_000)
  const { server, authority } = await setUpCaServer(t, { clock, serverTtlSeconds: 1000 })
  const root = authority.trustBundle().join('')
  const first = await presented(server.address, root)
  assert.match(first.subjectAltName ?? '', /DNS:localhost, DNS:istiod\.istio-system\.svc, IP Address:127\.0\.0\.1/)
  await clock.advance(499_000)
  assert.equal((await presented(server.address, root)).serialNumber, first.serialNumber)
  await clock.advance(1000)
  await clock.waitForDeadline(time => time > clock.now())
  assert.notEqual((await presented(server.address, root)).serialNumber, first.serialNumber)
})

test('after a switch to another root its TLS certificate is of that root', async t => {
  const clock = new FakeClock(Date.now())
  const { server, authority } = await setUpCaServer(t, { clock })
  const changed = async (change: () => Promise<unknown>) => {
    const [planned = 0] = clock.deadlines()
    clock.jump(1000)
    await change()
    await clock.waitForDeadline(time => time > planned)
  }
  await changed(() => authority.addRoot())
  await changed(() => authority.switchTo(authority.roots()[1]?.id ?? ''))
  await presented(server.address, authority.trustBundle()[1] ?? '')
})

test('of renewals that overlap the newest one counts', async t => {
  const clock = new FakeClock(Date.now())
  const { server, authority } = await setUpCaServer(t, { clock }, { keyType: 'rsa-2048' })
  const [planned = 0] = clock.deadlines()
  clock.jump(1000)
  await authority.addRoot()
  await authority.switchTo(authority.roots()[1]?.id ?? '')
  await clock.waitForDeadline(time => time > planned)
  await presented(server.address, authority.trustBundle()[1] ?? '')
})

test('a TLS certificate that cannot be renewed is warned of, and tried again', async t => {
  const clock = new FakeClock(Date.now())
  const { warnings } = await setUpCaServer(t, { clock }, { rootTtlSeconds: 100 })
  clock.jump(200_000)
  await clock.advance(0)
  await clock.waitForDeadline(time => time === clock.now() + 60_000)
  assert.match(warnings[0] ?? '', /Cannot renew the CA server's own certificate.*has expired/)
})

test('the same service without encryption is for loopback only', async t => {
  const setup = await setUpCaServer(t, { authenticators, plaintextListen: '127.0.0.1:0' })
  const address = setup.server.plaintextAddress ?? ''
  assert.equal(nameOf(await askAt(address, ChannelCredentials.createInsecure(), { token: 'web-token' })), `URI:${WEB}`)
  await assert.rejects(setUpCaServer(t, { plaintextListen: '0.0.0.0:0' }), {
    name: 'TypeError',
    message: /plaintextListen "0\.0\.0\.0:0": tokens would cross the network/,
  })
})

test('headers that are not ASCII are written to no log', async t => {
  const { server } = await setUpCaServer(t, { plaintextListen: '127.0.0.1:0' })
  const written = t.mock.method(console, 'error', () => {})
  const session = connectHttp2(`http://${server.plaintextAddress}`)
  t.after(() => session.destroy())
  const path = '/istio.v1.auth.IstioCertificateService/CreateCertificate'
  const call = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    'x-name': 'caf\u00e9',
  })
  await once(call.resume().end(), 'close')
  assert.equal(written.mock.callCount(), 0)
})

test('an address that is taken or malformed is an error that names it', async t => {
  const taken = await listening(createServer())
  t.after(() => taken.close())
  const listen = `127.0.0.1:${portOf(taken)}`
  await assert.rejects(setUpCaServer(t, { listen }), new RegExp(`Cannot serve the CA on ${listen}: .*EADDRINUSE`))
  await assert.rejects(setUpCaServer(t, { listen: 'nowhere' }), { name: 'TypeError', message: /listen "nowhere"/ })
})

test('closing twice is fine, and leaves no timer behind', async t => {
  const clock = new FakeClock(Date.now())
  const { server } = await setUpCaServer(t, { clock })
  await Promise.all([server[Symbol.asyncDispose](), server[Symbol.asyncDispose]()])
  assert.deepEqual(clock.deadlines(), [])
})

test('a call that is open when it closes may go on for the drain time, then it is cut', async t => {
  const clock = new FakeClock(Date.now())
  const { promise: asked, resolve: arrive } = Promise.withResolvers<void>()
  const authenticate = () => {
    arrive()
    return new Promise<never>(() => {})
  }
  const setup = await setUpCaServer(t, { clock, authenticators: [{ authenticate }], drainMs: 3000 })
  const cut = assert.rejects(ask(setup))
  await asked
  const closing = setup.server[Symbol.asyncDispose]()
  assert.deepEqual(clock.deadlines(), [clock.now() + 3000])
  await clock.advance(3000)
  await Promise.all([closing, cut])
})

test('the citadel plugin and this server do the whole way: token, impersonation, chain, roots', async t => {
  const { server, authority } = await setUpCaServer(t, { authenticators }, { intermediate: true })
  const directory = temporaryFolder(t)
  const tokenFile = `${directory}/token`
  await writeFile(tokenFile, 'node-token')
  await using client = await createCitadel(
    { address: server.address, rootCert: authority.trustBundle().join(''), tokenFile, impersonate: true },
    pluginContext({ clock: new SystemClock() }),
  )
  const { chain, roots } = await client.issue(await workloadRequest(API))
  assert.equal(nameOf(chain), `URI:${API}`)
  assert.equal(chain.length, 2)
  assert.deepEqual(roots, authority.trustBundle())
})

async function clientOf({ authority }: CaServerSetup, identity: SpiffeId) {
  const { csrDer, privateKeyPem } = await workloadRequest(identity)
  const { chain } = await authority.sign({ identity, csr: csrDer, ttlSeconds: 3600 })
  return { certificate: chain.join(''), key: privateKeyPem }
}

/** The certificate that the server shows to a client that trusts `root`. */
function presented(address: string, root: string): Promise<X509Certificate> {
  const { promise, resolve, reject } = Promise.withResolvers<X509Certificate>()
  const socket = connect({
    port: Number(address.split(':')[1]),
    host: '127.0.0.1',
    servername: 'istiod.istio-system.svc',
    ca: root,
    ALPNProtocols: ['h2'],
  })
  socket.once('secureConnect', () => {
    const certificate = socket.getPeerX509Certificate()
    socket.destroy()
    if (certificate) resolve(certificate)
  })
  socket.once('error', reject)
  return promise
}

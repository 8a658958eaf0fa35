import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { protos } from '@google-cloud/security-private-ca'
import { status } from '@grpc/grpc-js'
import { CAError, type TlsMaterial } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { listening, portOf } from '@livery/test-support'
import { isCAError } from '../../../test/citadel-setup.ts'
import {
  API,
  casHandler,
  configFor,
  decodeCas,
  IdentityTokens,
  openAuthority,
  POOL,
  setUpGoogle,
  startStandIn,
  WEB,
} from '../../../test/google-ca-setup.ts'
import { Refusal } from '../../../test/google-stand-in.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { createGoogleCa } from './plugin.ts'

const { FetchCaCertsResponse } = protos.google.cloud.security.privateca.v1
const never = new AbortController().signal

test('a request has the CSR, the lifetime, the reflected identity, and an ID by which it is answered once', async t => {
  const { client, server } = await setUpGoogle(t, { service: 'cas' })
  const request = await workloadRequest(WEB, { ttlSeconds: 1234 })
  const first = await client.issue(request)
  const [call] = server.calls
  assert.ok(call)
  const { parent, certificateId, requestId, issuingCertificateAuthorityId, certificate } = decodeCas(call)
  assert.equal(parent, POOL)
  assert.equal(certificateId, `livery-${requestId}`)
  assert.match(certificateId, /^[a-zA-Z0-9_-]{1,63}$/)
  assert.equal(issuingCertificateAuthorityId, '')
  assert.equal(certificate?.pemCsr, request.csrPem)
  assert.equal(Number(certificate?.lifetime?.seconds), 1234)
  assert.equal(certificate?.subjectMode, 2)
  assert.equal(certificate?.certificateTemplate, '')
  assert.equal(call.headers['x-goog-request-params'], `parent=${encodeURIComponent(POOL)}`)
  assert.deepEqual(await client.issue(request), first)
})

test('template, issuing CA and the identity of the CSR are asked for where they are configured', async t => {
  const certificateTemplate = 'projects/p/locations/europe-west1/certificateTemplates/svid'
  const { client, server } = await setUpGoogle(t, {
    service: 'cas',
    config: { certificateTemplate, issuingCa: 'ca-1', subjectMode: 'csr' },
  })
  await client.issue(await workloadRequest(API))
  const [call] = server.calls
  assert.ok(call)
  const { issuingCertificateAuthorityId, certificate } = decodeCas(call)
  assert.equal(issuingCertificateAuthorityId, 'ca-1')
  assert.equal(certificate?.certificateTemplate, certificateTemplate)
  assert.equal(certificate?.subjectMode, 1)
})

test('a lifetime beyond the maximum of the issuance policy is ttl-too-long', async t => {
  const { client } = await setUpGoogle(t, { service: 'cas' })
  const request = await workloadRequest(WEB, { ttlSeconds: 86_401 })
  await assert.rejects(client.issue(request), isCAError('ttl-too-long', /maximum lifetime of the issuance policy/))
})

test('the trust bundle has the root of every CA in the pool, each once', async t => {
  const { client, authorities, server } = await setUpGoogle(t, { service: 'cas', authorities: 3 })
  assert.deepEqual(
    await client.trustBundle?.({ signal: never }),
    authorities.flatMap(authority => authority.trustBundle()),
  )
  assert.equal(server.calls[0]?.headers['x-goog-request-params'], `ca_pool=${encodeURIComponent(POOL)}`)
})

test('of a chain to a root only the root is in the trust bundle, however many CAs lead to it', async t => {
  const setup = await setUpGoogle(t, { service: 'cas' })
  const { chain, roots = [] } = await setup.client.issue(await workloadRequest(WEB))
  const certificates = [...chain.slice(1), ...roots]
  setup.behaviour = async () =>
    FetchCaCertsResponse.encode({ caCerts: [{ certificates }, { certificates: [...roots] }] }).finish()
  assert.deepEqual(await setup.client.trustBundle?.({ signal: never }), roots)
})

test('a pool without a CA, or with one without a certificate, has no trust bundle', async t => {
  const setup = await setUpGoogle(t, { service: 'cas' })
  for (const caCerts of [[], [{ certificates: [] }], [{ certificates: ['no PEM'] }]]) {
    setup.behaviour = async () => FetchCaCertsResponse.encode({ caCerts }).finish()
    await assert.rejects(async () => setup.client.trustBundle?.({ signal: never }), isCAError('bad-response'))
  }
})

test('asking for the roots is refused, aborted and named as asking for a certificate is', async t => {
  const setup = await setUpGoogle(t, { service: 'cas' })
  const { client, server } = setup
  setup.behaviour = () => Promise.reject(new Refusal(status.PERMISSION_DENIED, 'no'))
  await assert.rejects(
    async () => client.trustBundle?.({ signal: never }),
    isCAError('denied', /the roots of projects\/p\/.*roles\/privateca\.poolReader/),
  )
  setup.behaviour = () => new Promise<never>(() => {})
  const abort = new AbortController()
  const reason = new CAError('timeout', 'too late')
  const arrived = server.nextCall()
  const asking = assert.rejects(async () => client.trustBundle?.({ signal: abort.signal }), reason)
  const { cancelled } = await arrived
  abort.abort(reason)
  await asking
  await cancelled
})

test('over TLS the server is verified with rootCert, and a new connection is made when its file has changed', async t => {
  const clock = new FakeClock(Date.now())
  const authority = await openAuthority(clock)
  const names = { dnsNames: ['localhost'], ipAddresses: [] }
  const { chain, privateKey } = await authority.issueServerCertificate(names, 3600)
  const server = await startStandIn('cas', casHandler([authority]), { cert: chain, key: privateKey })
  t.after(() => server[Symbol.asyncDispose]())
  const wrong: TlsMaterial = { roots: Buffer.from((await openAuthority(clock)).trustBundle().join('')) }
  let material = wrong
  const context = pluginContext({ clock, credentials: new IdentityTokens(), tls: async () => material })
  await using client = await createGoogleCa(context, configFor('cas', server, { endpoint: server.address }))
  await assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError('unavailable', /^(?!.*--use-system-ca).* No root in rootCert has signed/),
  )
  material = { roots: Buffer.from(authority.trustBundle().join('')) }
  const before = server.connections
  await client.issue(await workloadRequest(WEB))
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.connections, before + 1)
})

test("with configured credentials Google's libraries look for none, on the machine or at its metadata server", async t => {
  let lookups = 0
  const metadata = createServer((_, response) => {
    lookups++
    response.writeHead(500).end()
  })
  await listening(metadata)
  t.after(() => metadata.close())
  const port = portOf(metadata)
  process.env['GCE_METADATA_HOST'] = `127.0.0.1:${port}`
  t.after(() => delete process.env['GCE_METADATA_HOST'])
  const { client } = await setUpGoogle(t, { service: 'cas' })
  await client.issue(await workloadRequest(WEB))
  await client[Symbol.asyncDispose]()
  assert.equal(lookups, 0)
})

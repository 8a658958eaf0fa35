import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { isCAError, replaceFile } from '../../../test/citadel-setup.ts'
import { CLUSTER, decodeMesh, setUpGoogle, WEB } from '../../../test/google-ca-setup.ts'
import { GoogleTokenServer } from '../../../test/google-token-server.ts'
import { sts } from '../../credentials/sts.ts'
import { MeshCertificateResponse } from '../../gen/google/security/meshca/v1/meshca.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { createGoogleCa } from './plugin.ts'

test("a request has the CSR, the lifetime and the region of the cluster, as Istio's agent sent them", async t => {
  const { client, server } = await setUpGoogle(t, { service: 'mesh-ca' })
  const request = await workloadRequest(WEB, { ttlSeconds: 1234 })
  await client.issue(request)
  const [call] = server.calls
  assert.ok(call)
  const { csr, validity } = decodeMesh(call)
  assert.equal(csr, request.csrPem)
  assert.deepEqual(validity, { seconds: 1234n, nanos: 0 })
  assert.equal(call.headers['authorization'], `Bearer secret-token.${WEB}`)
  assert.equal(call.headers['x-goog-request-params'], 'location=locations/europe-west1-b')
})

test("the token of a pod is exchanged for that of the call, for the cluster, as Istio's agent did", async t => {
  const tokens = await GoogleTokenServer.start()
  t.after(() => tokens[Symbol.asyncDispose]())
  tokens.answer = ({ body }) => ({
    status: 200,
    json: { access_token: `exchanged-token.${body.get('subject_token')}`, expires_in: 3600, token_type: 'Bearer' },
  })
  const { server, context, config } = await setUpGoogle(t, { service: 'mesh-ca' })
  const tokenFile = join(temporaryFolder(t), 'token')
  await replaceFile(tokenFile, WEB)
  const credentials = await sts.create(
    { ...context, tokenFile },
    {
      audience: `identitynamespace:cluster.local:${CLUSTER}`,
      endpoint: `http://${tokens.address}/v1/token`,
      scope: 'https://www.googleapis.com/auth/cloud-platform',
    },
  )
  await using client = await createGoogleCa({ ...context, credentials }, config)
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.calls[0]?.headers['authorization'], `Bearer exchanged-token.${WEB}`)
  assert.equal(tokens.requests[0]?.body.get('audience'), `identitynamespace:cluster.local:${CLUSTER}`)
})

test('its roots are known by its chains only', async t => {
  const { client } = await setUpGoogle(t, { service: 'mesh-ca' })
  assert.equal(client.trustBundle, undefined)
  assert.equal(client.subscribe, undefined)
})

test('the last element is the root, self-signed or not', async t => {
  const setup = await setUpGoogle(t, { service: 'mesh-ca' })
  const { chain } = await setup.client.issue(await workloadRequest(WEB))
  setup.behaviour = async () => MeshCertificateResponse.encode({ certChain: [...chain] }).finish()
  assert.deepEqual(await setup.client.issue(await workloadRequest(WEB)), {
    chain: chain.slice(0, 1),
    roots: chain.slice(1),
  })
})

test('an answer without a root, with too many certificates or with something else is a bad-response', async t => {
  const setup = await setUpGoogle(t, { service: 'mesh-ca' })
  const { chain, roots = [] } = await setup.client.issue(await workloadRequest(WEB))
  const [leaf = ''] = chain
  const [root = ''] = roots
  const wrong: readonly (readonly [string[], RegExp])[] = [
    [[leaf], /has 1 elements, not a certificate and its root/],
    [[leaf, 'hello'], /no PEM certificate in element 1/],
    [[leaf, '-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n'], /cannot be parsed/],
    [[leaf, ...Array<string>(10).fill(root)], /has 11 elements/],
    [[leaf, root.padEnd(65_537)], /element of 65537 characters/],
  ]
  for (const [certChain, reason] of wrong) {
    setup.behaviour = async () => MeshCertificateResponse.encode({ certChain }).finish()
    await assert.rejects(setup.client.issue(await workloadRequest(WEB)), isCAError('bad-response', reason))
  }
})

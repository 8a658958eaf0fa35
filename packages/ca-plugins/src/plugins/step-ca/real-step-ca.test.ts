/** The plugin with a real step-ca, where `LIVERY_STEP_CA` names its binary; skipped elsewhere. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type CAContext, type CredentialRequest, SystemClock } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { importJWK, type JWK, SignJWT } from 'jose'
import { isCAError } from '../../../test/citadel-setup.ts'
import { noStepCa, type StepCaServer, startStepCaServer } from '../../../test/step-ca-process.ts'
import { encrypted, fingerprintOf, PROVISIONER, provisionerPair } from '../../../test/step-ca-stand-in.ts'
import { runAgainst } from '../../conformance/index.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { connectionTls } from '../../transport/index.ts'
import type { StepCaConfig } from './config.ts'
import { stepCa } from './index.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const skip = noStepCa
const { privateJwk, publicJwk } = await provisionerPair()

function contextOf(t: TestContext, server: StepCaServer, parts: Partial<CAContext> = {}): CAContext {
  const clock = new SystemClock()
  t.after(() => clock[Symbol.dispose]())
  const context = pluginContext({ clock, ...parts })
  return { ...context, tls: connectionTls({ rootCert: server.rootFile, log: context.log }) }
}

async function open(t: TestContext, context: CAContext, config: Partial<StepCaConfig> & { readonly address: string }) {
  const client = await stepCa.create(context, config)
  t.after(() => client[Symbol.asyncDispose]())
  return client
}

async function withKey(t: TestContext, server: StepCaServer, jwk: JWK = privateJwk) {
  const jwkFile = join(temporaryFolder(t), 'key.json')
  await writeFile(jwkFile, JSON.stringify(jwk))
  return open(t, contextOf(t, server), { address: server.address, provisioner: PROVISIONER, jwkFile })
}

test('a real step-ca passes the cases of the kit that need no faults', { skip }, async t => {
  await using server = await startStepCaServer({
    keys: { [PROVISIONER]: publicJwk },
    claims: { min: '5s', max: '48h' },
  })
  const client = await withKey(t, server)
  const { capabilities } = stepCa
  const { results, failed, passed } = await runAgainst(client, { capabilities, identities: [WEB] })
  assert.deepEqual(
    results.filter(({ outcome }) => outcome === 'failed'),
    [],
  )
  assert.equal(failed, 0)
  assert.ok(passed > 10)
})

test('a certificate by the default template of a real step-ca is accepted, also with the identity as common name', {
  skip,
}, async t => {
  const keys = { [PROVISIONER]: publicJwk }
  await using server = await startStepCaServer({ keys, template: '', claims: { min: '5s', max: '48h' } })
  const client = await withKey(t, server)
  const { chain } = await client.issue(await workloadRequest(WEB))
  assert.equal(new X509Certificate(chain[0] ?? '').subject, `CN=${WEB}`)
  const { failed } = await runAgainst(client, { capabilities: stepCa.capabilities, identities: [WEB] })
  assert.equal(failed, 0)
})

test('a real step-ca signs for the identity alone, under its roots, and dates it back', { skip }, async t => {
  await using server = await startStepCaServer({ keys: { [PROVISIONER]: publicJwk } })
  const client = await withKey(t, server)
  const { chain, roots } = await client.issue(await workloadRequest(WEB, { ttlSeconds: 600 }))
  const [leaf, intermediate] = chain.map(pem => new X509Certificate(pem))
  assert.equal(chain.length, 2)
  assert.equal(leaf?.subjectAltName, `URI:${WEB}`)
  assert.equal(leaf.subject, undefined)
  assert.equal(leaf.validToDate.getTime() - leaf.validFromDate.getTime(), 660_000)
  assert.ok(intermediate && leaf.checkIssued(intermediate))
  assert.equal(roots, undefined)
  const bundle = await client.trustBundle?.({ signal: t.signal })
  assert.deepEqual(bundle?.map(fingerprintOf), [fingerprintOf(server.rootPem)])
})

test('a real step-ca takes tokens of RSA and Ed25519 keys, and of keys with a password', { skip }, async t => {
  const pairs = { RS256: await provisionerPair('RS256'), EdDSA: await provisionerPair('EdDSA') }
  const keys = { RS256: pairs.RS256.publicJwk, EdDSA: pairs.EdDSA.publicJwk, [PROVISIONER]: publicJwk }
  await using server = await startStepCaServer({ keys })
  const folder = temporaryFolder(t)
  const passwordFile = join(folder, 'password')
  await writeFile(passwordFile, 'secret\n')
  const jwkFile = join(folder, 'key')
  const context = contextOf(t, server)
  for (const [provisioner, text] of [
    ['RS256', JSON.stringify(pairs.RS256.privateJwk)],
    ['EdDSA', JSON.stringify(pairs.EdDSA.privateJwk)],
    [PROVISIONER, await encrypted(privateJwk, 'secret', 'compact')],
    [PROVISIONER, await encrypted(privateJwk, 'secret', 'json')],
  ] as const) {
    await writeFile(jwkFile, text)
    const client = await open(t, context, { address: server.address, provisioner, jwkFile, passwordFile })
    assert.equal((await client.issue(await workloadRequest(WEB))).chain.length, 2)
  }
})

test('a real step-ca refuses lifetimes, keys, names and tokens, each by its code', { skip }, async t => {
  await using server = await startStepCaServer({ keys: { [PROVISIONER]: publicJwk }, claims: { min: '5m', max: '1h' } })
  const client = await withKey(t, server)
  const issue = async (options: Parameters<typeof workloadRequest>[1]) =>
    client.issue(await workloadRequest(WEB, options))
  await assert.rejects(issue({ ttlSeconds: 7200 }), isCAError('ttl-too-long', /maximum.*raise maxTLSCertDuration/))
  await assert.rejects(issue({ ttlSeconds: 60 }), isCAError('denied', /minimum.*lower minTLSCertDuration/))
  await assert.rejects(issue({ keyType: 'rsa-1024' }), isCAError('invalid-csr', /at least 2048 bits/))
  const another = 'spiffe://cluster.local/ns/default/sa/another'
  await assert.rejects(issue({ csrUri: another }), isCAError('invalid-csr', /does not contain the valid URIs/))
  const elsewhere = client.issue(await workloadRequest('spiffe://other.example/ns/default/sa/web'))
  await assert.rejects(elsewhere, isCAError('denied', /Let the policy and the template/))
  const stranger = await withKey(t, server, { ...(await provisionerPair()).privateJwk, kid: String(publicJwk.kid) })
  await assert.rejects(stranger.issue(await workloadRequest(WEB)), isCAError('unauthenticated', /provisioner "livery/))
  await issue({ ttlSeconds: 3600 })
})

test('a real step-ca takes a token of an OIDC issuer once, and its template the name of the CSR', { skip }, async t => {
  const issuer = await provisionerPair()
  const oidc = { clientId: 'livery', publicJwk: issuer.publicJwk }
  await using server = await startStepCaServer({ oidc })
  const key = await importJWK(issuer.privateJwk)
  let count = 0
  const credentials = {
    description: 'the token of the test',
    async get(_request: CredentialRequest) {
      const token = await new SignJWT({ nonce: String(count) })
        .setProtectedHeader({ alg: 'ES256', kid: String(issuer.publicJwk.kid) })
        .setIssuer(server.issuer)
        .setSubject('node-1')
        .setAudience('livery')
        .setIssuedAt()
        .setExpirationTime('5m')
        .sign(key)
      return { token }
    },
  }
  const client = await open(t, contextOf(t, server, { credentials }), { address: server.address })
  const { chain } = await client.issue(await workloadRequest(WEB))
  assert.equal(new X509Certificate(chain[0] ?? '').subjectAltName, `URI:${WEB}`)
  const request = await workloadRequest(WEB)
  await assert.rejects(client.issue(request), isCAError('unauthenticated', /the token of the test.*not used before/))
  count++
  await client.issue(request)
})

test('the root of a real step-ca is fetched by its fingerprint, and no other', { skip }, async t => {
  await using server = await startStepCaServer({ keys: { [PROVISIONER]: publicJwk } })
  const jwkFile = join(temporaryFolder(t), 'key.json')
  await writeFile(jwkFile, JSON.stringify(privateJwk))
  const { address } = server
  const { tls: _, ...context } = contextOf(t, server)
  const config = { address, provisioner: PROVISIONER, jwkFile }
  const client = await open(t, context, { ...config, fingerprint: fingerprintOf(server.rootPem).toUpperCase() })
  await client.issue(await workloadRequest(WEB))
  const wrong = await open(t, context, { ...config, fingerprint: '0'.repeat(64) })
  await assert.rejects(wrong.issue(await workloadRequest(WEB)), isCAError('unavailable', /HTTP 404. Check fingerprint/))
})

test('a real step-ca that freezes is a timeout, and one that restarts is asked again', { skip }, async t => {
  await using server = await startStepCaServer({ keys: { [PROVISIONER]: publicJwk } })
  const jwkFile = join(temporaryFolder(t), 'key.json')
  await writeFile(jwkFile, JSON.stringify(privateJwk))
  const config = { address: server.address, provisioner: PROVISIONER, jwkFile }
  const client = await open(t, contextOf(t, server), config)
  const patient = await withKey(t, server)
  await client.issue(await workloadRequest(WEB))
  server.freeze()
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('timeout'))
  server.thaw()
  await patient.issue(await workloadRequest(WEB))
  await server.restart()
  await patient.issue(await workloadRequest(WEB)).catch(isCAError('unavailable'))
  await patient.issue(await workloadRequest(WEB))
})

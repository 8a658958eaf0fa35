/** The plugin with a real Vault or OpenBao, where `LIVERY_VAULT` names its binary; skipped elsewhere. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { type CredentialSource, SystemClock } from '@livery/core/plugin'
import { isCAError } from '../../../test/citadel-setup.ts'
import { enableKubernetes, noVault, roleOf, startVaultServer, type VaultServer } from '../../../test/vault-process.ts'
import { runAgainst } from '../../conformance/index.ts'
import { pluginContext, warningsOf } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { connectionTls } from '../../transport/index.ts'
import type { VaultConfig } from './config.ts'
import { vault } from './index.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const KUBERNETES = { role: 'livery', mount: 'kubernetes' }
const skip = noVault

class OneToken implements CredentialSource {
  readonly description = 'the token of the test'
  asked = 0
  token: string

  constructor(token: string) {
    this.token = token
  }

  async get() {
    this.asked++
    return { token: this.token }
  }
}

async function open(t: TestContext, server: VaultServer, token: string, config: Partial<VaultConfig> = {}) {
  const clock = new SystemClock()
  t.after(() => clock[Symbol.dispose]())
  const credentials = new OneToken(token)
  const context = pluginContext({ clock, credentials })
  const tls = connectionTls({ rootCert: server.rootPem, log: context.log })
  const common = { address: server.address, role: 'workload', mount: 'pki' }
  const client = await vault.create({ ...context, tls }, { ...common, ...config })
  t.after(() => client[Symbol.asyncDispose]())
  return {
    client,
    context,
    credentials,
    issue: async (options = {}) => client.issue(await workloadRequest(WEB, options)),
  }
}

test('a real server passes the cases of the kit that need no faults', { skip }, async t => {
  await using server = await startVaultServer()
  await server.call('POST', 'pki/roles/workload', roleOf('48h'))
  const { client } = await open(t, server, await server.signer('workload', '1h'))
  const { capabilities } = vault
  const { results, passed } = await runAgainst(client, { capabilities, identities: [WEB] })
  assert.deepEqual(
    results.filter(({ outcome }) => outcome === 'failed'),
    [],
  )
  assert.ok(passed > 10)
})

test('a real server reports all roots through a rotation, and each leaf is under one of them', { skip }, async t => {
  await using server = await startVaultServer()
  const { client, issue } = await open(t, server, await server.signer('workload', '1h'))
  const bundle = async () => (await client.trustBundle?.({ signal: t.signal })) ?? []
  const before = await bundle()
  const first = await issue()
  assert.deepEqual(first.roots, before)
  const { data } = await server.call('POST', 'pki/root/rotate/internal', {
    common_name: 'Root 2',
    ttl: '87600h',
    key_type: 'ec',
    issuer_name: 'second',
  })
  assert.equal((await bundle()).length, 2)
  await server.call('POST', 'pki/root/replace', { default: String(data?.['issuer_id']) })
  const second = await issue()
  const [leaf] = second.chain.map(pem => new X509Certificate(pem))
  const [root] = (second.roots ?? []).map(pem => new X509Certificate(pem))
  assert.equal(root?.subject, 'CN=Root 2')
  assert.ok(leaf?.checkIssued(root))
  assert.equal((await bundle()).length, 2)
})

test('a real server with an intermediate sends it, and the root that was imported beside it', { skip }, async t => {
  await using server = await startVaultServer()
  await server.call('POST', 'sys/mounts/team/pki', { type: 'pki', config: { max_lease_ttl: '8760h' } })
  const csr = await server.call('POST', 'team/pki/intermediate/generate/internal', {
    common_name: 'Team',
    key_type: 'ec',
  })
  const signed = await server.call('POST', 'pki/root/sign-intermediate', { csr: csr.data?.['csr'], ttl: '8000h' })
  await server.call('POST', 'team/pki/intermediate/set-signed', { certificate: signed.data?.['certificate'] })
  await server.call('POST', 'team/pki/roles/workload', roleOf('1h'))
  const { client, issue } = await open(t, server, server.rootToken, { mount: 'team/pki' })
  const { signal } = t
  assert.equal((await issue()).chain.length, 2)
  await assert.rejects(
    async () => client.trustBundle?.({ signal }),
    isCAError('bad-response', /has no root.*issuers\/import/),
  )
  await server.call('POST', 'team/pki/issuers/import/cert', { pem_bundle: signed.data?.['issuing_ca'] })
  const { chain, roots } = await issue()
  assert.deepEqual(
    chain.map(pem => new X509Certificate(pem).subject),
    [undefined, 'CN=Team'],
  )
  assert.deepEqual(await client.trustBundle?.({ signal }), roots)
})

test('a real server cuts a long lifetime, and the plugin says so once', { skip }, async t => {
  await using server = await startVaultServer()
  const { context, issue } = await open(t, server, server.rootToken)
  for (let count = 0; count < 2; count++) {
    const { chain } = await issue({ ttlSeconds: 7200 })
    const { validToDate } = new X509Certificate(chain[0] ?? '')
    assert.ok(validToDate.getTime() <= context.clock.now() + 3_601_000)
  }
  const [warning, ...others] = warningsOf(context)
  assert.match(warning ?? '', /longer than permitted maxTTL/)
  assert.deepEqual(others, [])
})

test('a real server refuses each by its code', { skip }, async t => {
  await using server = await startVaultServer()
  const { call, rootToken } = server
  await call('POST', 'pki/roles/rsa', roleOf('1h', { key_type: 'rsa' }))
  await call('POST', 'pki/roles/named', roleOf('1h', { require_cn: true }))
  await call('POST', 'pki/roles/other', roleOf('1h', { allowed_uri_sans: 'spiffe://other/*' }))
  await call('POST', 'pki/roles/endless', roleOf('876000h'))
  const refused = async (token: string, config: Partial<VaultConfig>, ...expected: Parameters<typeof isCAError>) => {
    const { issue } = await open(t, server, token, config)
    await assert.rejects(issue({ ttlSeconds: config.role === 'endless' ? 3_000_000_000 : 600 }), isCAError(...expected))
  }
  await refused(rootToken, { role: 'rsa' }, 'invalid-csr', /keys of type rsa/)
  await refused(rootToken, { role: 'named' }, 'denied', /require_cn=false on the role/)
  await refused(rootToken, { role: 'other' }, 'denied', /allowed_uri_sans/)
  await refused(rootToken, { role: 'endless' }, 'ttl-too-long', /beyond the expiration/)
  await refused(rootToken, { role: 'nobody' }, 'unavailable', /unknown role: nobody.*Check address, mount, role/)
  await refused(rootToken, { mount: 'nowhere' }, 'unavailable', /no handler for route/)
  await refused('s.nonsense', {}, 'unauthenticated', /the token of the test.*has not expired/)
  await refused(await server.signer('rsa', '1h'), {}, 'denied', /policy with "update"/)
})

test('a quota of a real server is rate-limited, and a sealed one unavailable', { skip }, async t => {
  await using server = await startVaultServer()
  const { issue } = await open(t, server, server.rootToken)
  await server.call('POST', 'sys/quotas/rate-limit/one', { rate: 1, interval: '1h', path: 'pki' })
  await issue()
  await assert.rejects(issue(), isCAError('rate-limited', /quota exceeded/))
  await server.call('PUT', 'sys/seal')
  await assert.rejects(issue(), isCAError('unavailable', /Unseal the server/))
})

test('a real server is logged in to once as a service account, and again when the login was revoked', {
  skip,
}, async t => {
  await using server = await startVaultServer()
  await using kubernetes = await enableKubernetes(server, '1h')
  const { issue, credentials } = await open(t, server, kubernetes.jwt, { kubernetes: KUBERNETES })
  await issue()
  await issue()
  assert.equal(credentials.asked, 1)
  await server.call('POST', 'sys/leases/revoke-prefix/auth/kubernetes/login')
  await issue()
  assert.equal(credentials.asked, 2)
})

test('a real server that does not take the service account is unauthenticated', { skip }, async t => {
  await using server = await startVaultServer()
  await using kubernetes = await enableKubernetes(server, '1h')
  const wrongRole = await open(t, server, kubernetes.jwt, { kubernetes: { ...KUBERNETES, role: 'nobody' } })
  await assert.rejects(wrongRole.issue(), isCAError('unauthenticated', /role "nobody" of auth\/kubernetes is bound/))
  const [head, , signature] = kubernetes.jwt.split('.')
  const account = { namespace: 'livery', serviceaccount: { name: 'agent', uid: 'uid-2' } }
  const claims = Buffer.from(JSON.stringify({ 'kubernetes.io': account })).toString('base64url')
  const stranger = await open(t, server, `${head}.${claims}.${signature}`, { kubernetes: KUBERNETES })
  await assert.rejects(
    stranger.issue(),
    isCAError('unauthenticated', /permission denied.*bound to the service account/),
  )
})

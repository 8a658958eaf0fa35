import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { type CAChange, CAError } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { pluginContext, warningsOf } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { CertificateAuthority } from './certificate-authority.ts'
import { EmbeddedClient } from './client.ts'
import { embedded } from './index.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const clock = { now: () => Date.now(), at: () => assert.fail('this plugin sets no timer') }

async function openClient() {
  const authority = await CertificateAuthority.open({ clock, trustDomain: 'cluster.local' })
  return new EmbeddedClient(authority)
}

test('a certificate for the asked identity comes with the trust bundle', async () => {
  const client = await openClient()
  const { chain, roots, privateKey } = await client.issue(await workloadRequest(WEB))
  assert.equal(new X509Certificate(chain[0] ?? '').subjectAltName, `URI:${WEB}`)
  assert.deepEqual(roots, await client.trustBundle({ signal: new AbortController().signal }))
  assert.equal(privateKey, undefined)
})

test('the plugin opens a CA of the context and the configuration, and says that it is not for production', async () => {
  const context = pluginContext({ clock, trustDomain: 'example.org' })
  const config = { keyType: 'ecdsa-p384', intermediate: true } as const
  await using client = await embedded.create(context, config)
  assert.deepEqual(warningsOf(context).length, 1)
  assert.match(warningsOf(context)[0] ?? '', /has made a new root.*in memory.*not for production/)
  const identity = 'spiffe://example.org/web'
  const { chain, roots = [] } = await client.issue(await workloadRequest(identity, { ttlSeconds: 90 * 86_400 }))
  assert.equal(chain.length, 2)
  assert.equal(new X509Certificate(roots[0] ?? '').publicKey.asymmetricKeyDetails?.namedCurve, 'secp384r1')
  await assert.rejects(client.issue(await workloadRequest(identity, { ttlSeconds: 90 * 86_400 + 1 })), {
    code: 'ttl-too-long',
  })
})

test('with a directory the plugin has the same root again', async t => {
  const directory = temporaryFolder(t)
  const config = { directory, keyType: 'ecdsa-p256', intermediate: false } as const
  const bundles: (readonly string[] | undefined)[] = []
  for (let start = 0; start < 2; start++) {
    await using client = await embedded.create(pluginContext({ clock }), config)
    bundles.push(await client.trustBundle?.({ signal: new AbortController().signal }))
  }
  assert.equal(bundles[0]?.length, 1)
  assert.deepEqual(bundles[0], bundles[1])
})

test('an aborted request rejects with the reason of its signal, also while the CSR is being made', async () => {
  const client = await openClient()
  const reason = new Error('nobody waits')
  await assert.rejects(client.issue(await workloadRequest(WEB, { signal: AbortSignal.abort(reason) })), reason)
  const abort = new AbortController()
  const request = { ...(await workloadRequest(WEB, { signal: abort.signal })), csr: () => new Promise<never>(() => {}) }
  const issuing = client.issue(request)
  abort.abort(reason)
  await assert.rejects(issuing, reason)
})

test('its listeners hear of a new root until it is closed', async () => {
  const client = await openClient()
  const changes: CAChange[] = []
  client.subscribe(change => changes.push(change))
  await client.authority.addRoot()
  await client[Symbol.asyncDispose]()
  await client.authority.addRoot()
  assert.deepEqual(changes, [{ kind: 'roots' }])
})

test('closing twice is fine, and a closed client refuses each call', async () => {
  const client = await openClient()
  await client[Symbol.asyncDispose]()
  await client[Symbol.asyncDispose]()
  const closed = (error: unknown) => error instanceof CAError && error.code === 'unavailable' && !error.retryable
  await assert.rejects(client.issue(await workloadRequest(WEB)), closed)
  await assert.rejects(client.trustBundle({ signal: new AbortController().signal }), closed)
  assert.throws(() => client.subscribe(() => {}), closed)
})

/** The plugin under the SecretManager, whose deadline for a call is shorter than what an approver takes. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import type { KubeCall } from '../../../test/kube-api-server.ts'
import { standInCluster } from '../../../test/kube-clusters.ts'
import { openClient } from '../../../test/kube-setup.ts'
import { manage } from '../../../test/managed-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
/** The default of core. */
const CONCURRENCY = 64
const is = (verb: KubeCall['verb']) => (call: KubeCall) => call.verb === verb

async function setUp(t: TestContext) {
  const cluster = await standInCluster(t)
  const signerRoots = join(temporaryFolder(t), 'roots.pem')
  await writeFile(signerRoots, cluster.authority.trustBundle().join(''))
  const opened = await openClient(t, { kubeconfig: cluster.kubeconfig, signerRoots })
  const managed = manage(opened.client, opened.clock)
  t.after(() => managed[Symbol.asyncDispose]())
  return { ...cluster, ...opened, ...managed }
}

test('an approval that takes longer than a call is waited for with one request, and one key', async t => {
  const { server, clock, manager, signer, events, until } = await setUp(t)
  manager.add(WEB)
  const { name } = await server.called(is('watch'))
  for (const round of [1, 2, 3]) {
    await clock.advance(30_000)
    const given = await until('ca-error', round)
    assert.equal(given.kind === 'ca-error' && given.code, 'timeout')
    const planned = await until('retry-planned', round)
    await clock.advance((planned.kind === 'retry-planned' ? planned.at : 0) - clock.now())
    await server.called(is('watch'), round + 1)
  }
  await signer.approve(name)
  await signer.sign(name)
  await until('issued')
  assert.deepEqual(
    server.calls.filter(is('create')).map(({ token }) => token),
    ['admin'],
  )
  assert.equal(events.filter(({ kind }) => kind === 'issued').length, 1)
  const secret = manager.current({ kind: 'identity', identity: WEB })
  assert.ok(secret?.kind === 'certificate')
  assert.equal(new X509Certificate(secret.certificateChain).subjectAltName, `URI:${WEB}`)
})

test('a denied request is followed by a new one with a new key, at the longest backoff', async t => {
  const { server, clock, manager, signer, until } = await setUp(t)
  manager.add(WEB)
  const { name } = await server.called(is('watch'))
  await signer.deny(name, 'no')
  const planned = await until('retry-planned')
  const at = planned.kind === 'retry-planned' ? planned.at : 0
  assert.ok(at - clock.now() > 100_000, `asked again after ${at - clock.now()} ms`)
  await clock.advance(at - clock.now())
  const second = await server.called(is('watch'), 2)
  assert.notEqual(second.name, name)
  await signer.approve(second.name)
  await signer.sign(second.name)
  await until('issued')
})

test('identities that come together are one request each, of which no more wait at the API server than may run at once', {
  timeout: 600_000,
}, async t => {
  const count = process.env['LIVERY_SLOW'] ? 2_000 : 200
  const { server, manager, signer, events, until } = await setUp(t)
  let most = 0
  let made = 0
  server.admit = async () => {
    most = Math.max(most, ++made - signer.signed)
    return undefined
  }
  await using _running = signer.run()
  for (let index = 0; index < count; index++) manager.add(`spiffe://cluster.local/ns/default/sa/web-${index}`)
  await until('issued', count)
  assert.equal(made, count)
  assert.ok(most > 1 && most <= CONCURRENCY, `${most} requests waited at once`)
  assert.equal(events.filter(({ kind }) => kind === 'ca-error').length, 0)
})

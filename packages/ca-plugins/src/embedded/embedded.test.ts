import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { type CAChange, CAError } from '@livery/core'
import { workloadRequest } from '../testing/workload-request.ts'
import { createEmbedded } from './embedded.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

async function embedded() {
  const warnings: string[] = []
  const clock = { now: () => Date.now(), at: () => assert.fail('this plugin sets no timer') }
  const client = await createEmbedded({ trustDomain: 'cluster.local' }, { clock, warn: text => warnings.push(text) })
  return { client, warnings }
}

test('a certificate for the asked identity comes with the trust bundle', async () => {
  const { client } = await embedded()
  const { chain, roots, privateKey } = await client.issue(await workloadRequest(WEB))
  assert.equal(new X509Certificate(chain[0] ?? '').subjectAltName, `URI:${WEB}`)
  assert.deepEqual(roots, await client.trustBundle({ signal: new AbortController().signal }))
  assert.equal(privateKey, undefined)
})

test('it says that it is not for production', async () => {
  const { warnings } = await embedded()
  assert.equal(warnings.length, 1)
  assert.match(warnings[0] ?? '', /in memory.*not for production/)
})

test('an aborted request rejects with the reason of its signal, also while the CSR is being made', async () => {
  const { client } = await embedded()
  const reason = new Error('nobody waits')
  await assert.rejects(client.issue(await workloadRequest(WEB, { signal: AbortSignal.abort(reason) })), reason)
  const abort = new AbortController()
  const request = { ...(await workloadRequest(WEB, { signal: abort.signal })), csr: () => new Promise<never>(() => {}) }
  const issuing = client.issue(request)
  abort.abort(reason)
  await assert.rejects(issuing, reason)
})

test('its listeners hear of a new root until it is closed', async () => {
  const { client } = await embedded()
  const changes: CAChange[] = []
  client.subscribe(change => changes.push(change))
  await client.authority.addRoot()
  await client[Symbol.asyncDispose]()
  await client.authority.addRoot()
  assert.deepEqual(changes, [{ kind: 'roots' }])
})

test('closing twice is fine, and a closed client refuses each call', async () => {
  const { client } = await embedded()
  await client[Symbol.asyncDispose]()
  await client[Symbol.asyncDispose]()
  const closed = (error: unknown) => error instanceof CAError && error.code === 'unavailable' && !error.retryable
  await assert.rejects(client.issue(await workloadRequest(WEB)), closed)
  await assert.rejects(client.trustBundle({ signal: new AbortController().signal }), closed)
  assert.throws(() => client.subscribe(() => {}), closed)
})

/** FetchSecrets over a real socket. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemorySource } from '../../test/memory-source.ts'
import { API, OTHER, startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'

test('the names that the caller is allowed are answered, others are left out', async () => {
  await using running = await startServer()
  const response = await running.connect().fetch({ resourceNames: [WEB, OTHER, 'ROOTCA', WEB], node: undefined })
  assert.deepEqual(namesOf(response), ['ROOTCA', WEB])
  assert.equal(response.resources.length, 2)
  assert.deepEqual(
    running.reports.get(OTHER)?.map(event => event.kind),
    ['asked', 'refused'],
  )
})

test('the empty list is everything that the caller is allowed', async () => {
  await using running = await startServer()
  const client = running.connect()
  assert.deepEqual(namesOf(await client.fetch({})), ['spiffe://cluster.local', API, WEB])
})

test('a secret that is being issued is waited for', async () => {
  const source = await MemorySource.create(API)
  source.add(WEB)
  await using running = await startServer({}, { source })
  const answer = running.connect().fetch({ resourceNames: [WEB, API] })
  await source.clock.waitForDeadline(() => true)
  await running.event('stream-opened')
  await source.issue(WEB)
  assert.deepEqual(namesOf(await answer), [API, WEB])
  assert.equal(source.subscribers, 0)
})

test('what is not issued in time is left out, and nothing at all is UNAVAILABLE', async () => {
  const source = await MemorySource.create(API)
  source.add(WEB)
  await using running = await startServer({}, { source, fetchWaitMs: 3_000 })
  const client = running.connect()
  const isWait = (time: number) => time === source.clock.now() + 3_000
  const some = client.fetch({ resourceNames: [WEB, API] })
  await source.clock.waitForDeadline(isWait)
  await source.clock.advance(3_000)
  assert.deepEqual(namesOf(await some), [API])
  const none = assert.rejects(client.fetch({ resourceNames: [WEB] }), { code: 14, details: /not|issued/ })
  await source.clock.waitForDeadline(isWait)
  await source.clock.advance(3_000)
  await none
})

test('a request that is refused on a stream is refused here', async () => {
  await using running = await startServer({ limits: { names: 1 } })
  const client = running.connect()
  await assert.rejects(client.fetch({ resourceNames: [WEB, API] }), { code: 3 })
  await assert.rejects(client.fetch({}), { code: 3 })
  await assert.rejects(client.fetch({ resourceNames: ['a\0'] }), { code: 3 })
  await assert.rejects(client.fetch({ typeUrl: 'type.googleapis.com/envoy.config.listener.v3.Listener' }), { code: 3 })
})

/** The gRPC health protocol over a real socket. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../test/running-server.ts'
import { SDS_SERVICE } from './discovery-service.ts'

const SERVING = 1

test('the server and its services are SERVING, another service is not found', async () => {
  await using running = await startServer()
  const client = running.connect()
  for (const service of ['', SDS_SERVICE, 'grpc.health.v1.Health']) assert.equal(await client.health(service), SERVING)
  await assert.rejects(client.health('istio.v1.auth.IstioCertificateService'), { code: 5 })
})

test('a watch reports the drain before it ends', async () => {
  await using running = await startServer({}, { drainMs: 1_000 })
  const client = running.connect()
  const watch = client.watchHealth()
  assert.equal((await watch.next()).status, SERVING)
  const closed = running.server.close()
  assert.equal((await watch.next()).status, 2)
  await running.source.clock.waitForDeadline(time => time === running.source.clock.now() + 1_000)
  await running.source.clock.advance(1_000)
  assert.equal((await watch.status).code, 0)
  await closed
})

test('a watch of an unknown service says so and stays open', async () => {
  await using running = await startServer()
  const client = running.connect()
  const watch = client.watchHealth('nothing')
  assert.equal((await watch.next()).status, 3)
  watch.cancel()
})

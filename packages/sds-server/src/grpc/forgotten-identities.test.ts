/** Streams whose identity the source lets go of: who gets it again, and who has to wait until it is configured. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SpiffeId } from '@livery/core/plugin'
import { MemorySource } from '../../test/memory-source.ts'
import { startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'

const WEB_SECRET = { kind: 'identity', identity: WEB } as const

/** Counts the identities added on demand, and has no room while a test says so. */
async function countingSource() {
  const source = await MemorySource.create(WEB)
  const counting = { source, added: 0, hasRoom: true }
  const add = source.add.bind(source)
  source.add = (identity: SpiffeId) => {
    counting.added++
    if (counting.hasRoom) add(identity)
  }
  return counting
}

test('on demand, an identity that is forgotten is added again once for all streams that have it, which need not ask', async () => {
  const counting = await countingSource()
  const { source } = counting
  await using running = await startServer({ onDemand: true }, { source })
  const client = running.connect()
  const streams = [client.sotw(), client.sotw()]
  for (const stream of streams) {
    stream.ask(WEB)
    stream.ack(await stream.next(), WEB)
  }
  const delta = client.delta()
  delta.subscribe(WEB)
  delta.ack(await delta.next())
  await client.settled()

  source.forget(WEB)
  assert.deepEqual([source.knows(WEB_SECRET), counting.added], [true, 1])
  assert.deepEqual((await delta.next()).removedResources, [WEB])
  const { version } = await source.issue(WEB)
  for (const stream of streams) assert.equal((await stream.next()).versionInfo, version)
  assert.deepEqual(namesOf(await delta.next()), [WEB])
  assert.equal(counting.added, 1)
})

test('on demand, an identity that is forgotten and that no stream has is not added again', async () => {
  const counting = await countingSource()
  await using running = await startServer({ onDemand: true }, counting)
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB)
  await stream.next()
  stream.cancel()
  await running.event('stream-closed')
  counting.source.forget(WEB)
  assert.deepEqual([counting.source.knows(WEB_SECRET), counting.added], [false, 0])
})

for (const form of ['sotw', 'delta'] as const) {
  test(`on demand, an identity for which there was no room is added when it is asked for again (${form})`, async () => {
    const counting = await countingSource()
    const { source } = counting
    await using running = await startServer({ onDemand: true }, { source })
    const client = running.connect()
    const stream = client[form]()
    const ask = () => ('subscribe' in stream ? stream.subscribe(WEB) : stream.ask(WEB))
    ask()
    await stream.next()
    counting.hasRoom = false
    source.forget(WEB)
    if (form === 'delta') await stream.next()
    assert.ok(!source.knows(WEB_SECRET))
    counting.hasRoom = true
    ask()
    await client.settled()
    assert.ok(source.knows(WEB_SECRET))
    await source.issue(WEB)
    assert.deepEqual(namesOf(await stream.next()), [WEB])
  })
}

test('elsewhere it is answered as unknown when it is asked for again, and pushed when it is configured or on demand', async () => {
  const { source } = await countingSource()
  await using running = await startServer({}, { source })
  const stream = running.connect().sotw()
  stream.ask(WEB)
  await stream.next()
  source.forget(WEB)
  assert.ok(!source.knows(WEB_SECRET))
  stream.ask(WEB)
  assert.deepEqual(namesOf(await stream.next()), [])
  await source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])

  source.forget(WEB)
  running.server.prepareAccess([{ path: running.path, allow: [WEB], onDemand: true }])()
  assert.ok(source.knows(WEB_SECRET))
  await source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

test('on a socket that goes, an identity that is forgotten is not added again, and the source notices nothing', async () => {
  const counting = await countingSource()
  await using running = await startServer({ onDemand: true }, { source: counting.source, drainMs: 1_000 })
  const stream = running.connect().sotw()
  stream.ask(WEB)
  await stream.next()
  const stopped = running.server.stopListening(running.path)
  counting.source.forget(WEB)
  assert.equal(counting.added, 0)
  stream.cancel()
  await running.source.clock.advance(1_000)
  await stopped
})

/** Delta over a real socket. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemorySource } from '../../test/memory-source.ts'
import { API, OTHER, startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'

const UNKNOWN = 'spiffe://cluster.local/ns/default/sa/nobody'

test('a subscription is answered with name and version, and its ACK is not answered', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.delta()
  stream.subscribe(WEB)
  const response = await stream.next()
  const version = running.source.current({ kind: 'identity', identity: WEB })?.version
  assert.deepEqual(
    response.resources.map(resource => [resource.name, resource.version]),
    [[WEB, version]],
  )
  assert.deepEqual(namesOf(response), [WEB])
  stream.ack(response)
  await client.settled()
  assert.equal(stream.queued, 0)
  assert.deepEqual(
    running.reports.get(WEB)?.map(event => event.kind),
    ['asked', 'pushed', 'acked'],
  )
})

test('only a new version is pushed, and only of what changed', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.delta()
  stream.subscribe(WEB, API, 'ROOTCA')
  assert.equal((await stream.next()).resources.length, 3)
  running.source.setBundle()
  const { version } = await running.source.issue(API)
  const push = await stream.next()
  assert.deepEqual(
    push.resources.map(resource => [resource.name, resource.version]),
    [[API, version]],
  )
  await client.settled()
  assert.equal(stream.queued, 0)
})

test('a version that the peer has from an earlier stream is not sent again, another one is', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.delta()
  const version = running.source.current({ kind: 'identity', identity: WEB })?.version ?? ''
  stream.send({
    resourceNamesSubscribe: [WEB, API, 'ROOTCA'],
    initialResourceVersions: { [WEB]: version, [API]: 'of yesterday' },
  })
  assert.deepEqual(namesOf(await stream.next()), ['ROOTCA', API])
  const next = await running.source.issue(WEB)
  assert.equal((await stream.next()).resources[0]?.version, next.version)
})

test('a peer that has everything is not answered at all until something changes', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.delta()
  const version = running.source.current({ kind: 'identity', identity: WEB })?.version ?? ''
  stream.send({ resourceNamesSubscribe: [WEB], initialResourceVersions: { [WEB]: version } })
  await client.settled()
  assert.equal(stream.queued, 0)
  await running.source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

test('a version that the peer has is recognised also when the secret comes later', async () => {
  const issued = await MemorySource.create(WEB)
  const item = issued.current({ kind: 'identity', identity: WEB })
  const source = await MemorySource.create()
  source.add(WEB)
  await using running = await startServer({}, { source })
  const client = running.connect()
  const stream = client.delta()
  stream.send({ resourceNamesSubscribe: [WEB], initialResourceVersions: { [WEB]: item?.version ?? '' } })
  await client.settled()
  source.set(WEB, item)
  await client.settled()
  assert.equal(stream.queued, 0)
})

test('a name that is subscribed to again is answered again', async () => {
  await using running = await startServer()
  const stream = running.connect().delta()
  stream.subscribe(WEB)
  await stream.next()
  stream.subscribe(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

test('a name that is unsubscribed is pushed no more', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.delta()
  stream.subscribe(WEB, API)
  stream.ack(await stream.next())
  stream.send({ resourceNamesUnsubscribe: [WEB, 'never-subscribed'] })
  await client.settled()
  await running.source.issue(WEB)
  await running.source.issue(API)
  assert.deepEqual(namesOf(await stream.next()), [API])
  assert.equal(running.source.subscribers, 1)
})

test('an unknown or forbidden name is removed, alone, and never gets a key', async () => {
  await using running = await startServer()
  const stream = running.connect().delta()
  stream.subscribe(OTHER, UNKNOWN, 'default', WEB)
  const response = await stream.next()
  assert.deepEqual(namesOf(response), [WEB])
  assert.deepEqual(response.removedResources.sort(), ['default', UNKNOWN, OTHER])
  await running.source.issue(UNKNOWN)
  assert.deepEqual(namesOf(await stream.next()), [UNKNOWN])
})

test('a secret that is withdrawn is removed, and sent when it is back', async () => {
  await using running = await startServer()
  const stream = running.connect().delta()
  stream.subscribe(WEB)
  await stream.next()
  running.source.set(WEB, undefined)
  const removal = await stream.next()
  assert.deepEqual([removal.resources.length, removal.removedResources], [0, [WEB]])
  await running.source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

test('a secret that does not exist yet is waited for and not removed', async () => {
  const source = await MemorySource.create()
  source.add(WEB)
  await using running = await startServer({}, { source })
  const client = running.connect()
  const stream = client.delta()
  stream.subscribe(WEB)
  await client.settled()
  assert.equal(stream.queued, 0)
  await source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

for (const [how, subscribe] of [
  ['no subscription at first', []],
  ['a subscription to "*"', ['*']],
] as const) {
  test(`${how} is everything that the caller is allowed, less what the peer must forget`, async () => {
    await using running = await startServer()
    const client = running.connect()
    const stream = client.delta()
    stream.send({ resourceNamesSubscribe: [...subscribe], initialResourceVersions: { [UNKNOWN]: 'of yesterday' } })
    const response = await stream.next()
    assert.deepEqual(namesOf(response), ['spiffe://cluster.local', API, WEB])
    assert.deepEqual(response.removedResources, [UNKNOWN])
    stream.send({ resourceNamesSubscribe: [WEB], resourceNamesUnsubscribe: ['*'] })
    assert.deepEqual(namesOf(await stream.next()), [WEB])
    await client.settled()
    assert.equal(running.source.subscribers, 1)
  })
}

test('a NACK is not answered, and is recorded for each secret of the answer', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.delta()
  stream.subscribe(WEB, API)
  const { nonce: responseNonce } = await stream.next()
  stream.send({ responseNonce, errorDetail: { code: 13, message: 'KEY_VALUES_MISMATCH' }, node: undefined })
  await client.settled()
  assert.equal(stream.queued, 0)
  for (const name of [WEB, API]) {
    const nacked = running.reports.get(name)?.find(event => event.kind === 'nacked')
    assert.equal(nacked?.detail, 'KEY_VALUES_MISMATCH')
  }
})

test('ACKs that arrive after the next push are each counted for what they acknowledge', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.delta()
  stream.subscribe(WEB, API)
  const first = await stream.next()
  await running.source.issue(WEB)
  const second = await stream.next()
  stream.ack(first)
  stream.ack(second)
  await client.settled()
  assert.equal(stream.queued, 0)
  const acks = (name: string) => running.reports.get(name)?.filter(event => event.kind === 'acked').length
  assert.deepEqual([acks(WEB), acks(API)], [2, 1])
})

test('the names of one stream are counted over all of its requests', async () => {
  await using running = await startServer({ limits: { names: 2 } })
  const stream = running.connect().delta()
  stream.subscribe(WEB, API)
  await stream.next()
  stream.subscribe('ROOTCA')
  const { code, details } = await stream.status
  assert.equal(code, 3)
  assert.match(details, /3 resource names on one stream: at most 2/)
})

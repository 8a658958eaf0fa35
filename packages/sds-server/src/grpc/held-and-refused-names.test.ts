/** Names that cannot be answered at once: held, unknown, forbidden, withdrawn, or all of them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemorySource } from '../../test/memory-source.ts'
import { API, OTHER, startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'

const UNKNOWN = 'spiffe://cluster.local/ns/default/sa/nobody'

test('a request is held until the secret exists, and other streams are answered meanwhile', async () => {
  const source = await MemorySource.create(API)
  source.add(WEB)
  await using running = await startServer({}, { source })
  const client = running.connect()
  const waiting = client.sotw()
  waiting.ask(WEB)
  const other = client.sotw()
  other.ask(API)
  assert.deepEqual(namesOf(await other.next()), [API])
  await client.settled()
  assert.equal(waiting.queued, 0)
  const { version } = await source.issue(WEB)
  assert.equal((await waiting.next()).versionInfo, version)
})

test('of several names those that are ready are answered at once, the others when they are', async () => {
  const source = await MemorySource.create(API)
  source.add(WEB)
  await using running = await startServer({}, { source })
  const stream = running.connect().sotw()
  stream.ask(WEB, API, OTHER, 'ROOTCA')
  assert.deepEqual(namesOf(await stream.next()), ['ROOTCA', API])
  await source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

test('a name that is unknown or forbidden gets no resource, is recorded, and its stream continues', async () => {
  await using running = await startServer()
  // The agent has it, for others.
  await running.source.issue(OTHER)
  const client = running.connect()
  for (const name of [OTHER, UNKNOWN, 'default', 'file-cert:/etc/cert.pem~/etc/key.pem', 'nonsense\u00e9']) {
    const stream = client.sotw()
    stream.ask(name)
    const response = await stream.next()
    assert.deepEqual(namesOf(response), [], name)
    stream.ack(response, name, 'ROOTCA')
    assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'], name)
  }
  const kinds = (name: string) => running.reports.get(name)?.map(event => event.kind)
  assert.deepEqual(kinds(OTHER), ['asked', 'refused'])
  assert.deepEqual(kinds(UNKNOWN), ['asked', 'refused'])
  assert.deepEqual(kinds('nonsense\\u{e9}'), ['asked', 'refused'])
})

test('an allowed name that becomes known later is pushed then', async () => {
  await using running = await startServer()
  const stream = running.connect().sotw()
  stream.ask(UNKNOWN)
  assert.deepEqual(namesOf(await stream.next()), [])
  await running.source.issue(UNKNOWN)
  assert.deepEqual(namesOf(await stream.next()), [UNKNOWN])
})

test('a name that is asked for again once it is known is held until its secret exists', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(UNKNOWN)
  assert.deepEqual(namesOf(await stream.next()), [])
  running.source.add(UNKNOWN)
  stream.ask(UNKNOWN)
  await client.settled()
  assert.equal(stream.queued, 0)
  await running.source.issue(UNKNOWN)
  assert.deepEqual(namesOf(await stream.next()), [UNKNOWN])
  await client.settled()
  assert.equal(stream.queued, 0)
  assert.equal(running.source.subscribers, 1)
})

test('a secret that was withdrawn is not sent, and the next one is', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB)
  stream.ack(await stream.next(), WEB)
  running.source.set(WEB, undefined)
  await client.settled()
  assert.equal(stream.queued, 0)
  const late = client.sotw()
  late.ask(WEB)
  await client.settled()
  assert.equal(late.queued, 0)
  const { version } = await running.source.issue(WEB)
  assert.equal((await stream.next()).versionInfo, version)
  assert.equal((await late.next()).versionInfo, version)
})

test('an empty first list is everything that the caller is allowed, and gets pushes', async () => {
  await using running = await startServer({}, { source: await MemorySource.create(WEB, API, OTHER) })
  const client = running.connect()
  const stream = client.sotw()
  stream.ask()
  const response = await stream.next()
  assert.deepEqual(namesOf(response), ['spiffe://cluster.local', API, WEB])
  stream.ack(response)
  await client.settled()
  assert.equal(stream.queued, 0)
  await running.source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

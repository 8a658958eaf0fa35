/** Readers that do not read: what one of them costs, and that nobody else notices. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { RawPeer, type RawStream } from '../../test/raw-peer.ts'
import { startServer, WEB } from '../../test/running-server.ts'
import type { SdsEvent } from '../events/sds-event.ts'

const ROTATIONS = 100
const LAST = `version-${ROTATIONS - 1}`

/** How many responses were made for each stream: each is a buffer that is held until it is written. */
function responsesByStream(events: readonly SdsEvent[]): Map<number, number> {
  const responses = new Map<number, number>()
  for (const event of events) {
    if (event.kind !== 'stream-report' || event.report.kind !== 'pushed') continue
    responses.set(event.stream.id, (responses.get(event.stream.id) ?? 0) + 1)
  }
  return responses
}

test('a thousand stuck streams hold one response each over a hundred rotations, and get the newest when they read', async () => {
  await using running = await startServer()
  const peers = Array.from({ length: 20 }, () => new RawPeer(running.path, { initialWindowSize: 0 }))
  const stuck: RawStream[] = peers.flatMap(peer => Array.from({ length: 50 }, () => peer.open()))
  for (const stream of stuck) stream.ask('ROOTCA')
  await running.event('stream-report', () => responsesByStream(running.events).size === 1_000)

  const reader = running.connect().sotw()
  reader.ask('ROOTCA')
  await reader.next()
  for (let rotation = 0; rotation < ROTATIONS; rotation++) {
    running.source.setBundle('cluster.local', { version: `version-${rotation}` })
    const response = await reader.next()
    assert.equal(response.versionInfo, `version-${rotation}`)
    reader.ack(response, 'ROOTCA')
  }
  const responses = [...responsesByStream(running.events).values()].sort((a, b) => a - b)
  assert.deepEqual(
    [responses.length, responses.at(0), responses.at(-2), responses.at(-1)],
    [1_001, 1, 1, ROTATIONS + 1],
  )

  const newest = stuck.map(async stream => {
    await stream.next()
    return await stream.next()
  })
  for (const peer of peers) peer.openWindows(65_535)
  for (const response of await Promise.all(newest)) assert.equal(response.versionInfo, LAST)
  for (const peer of peers) peer[Symbol.dispose]()
})

test('a stuck stream does not hold up another one on its own connection', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  await peer.pinged()
  peer.session.setLocalWindowSize(10_000_000)
  const [stuck, neighbour] = [peer.open(), peer.open()]
  for (const stream of [stuck, neighbour]) {
    stream.ask('ROOTCA')
    await stream.next()
  }
  stuck.http.pause()
  for (let rotation = 0; rotation < ROTATIONS; rotation++) {
    running.source.setBundle('cluster.local', { version: `version-${rotation}`, padding: 50_000 })
    const response = await neighbour.next()
    assert.equal(response.versionInfo, `version-${rotation}`)
    neighbour.ack(response, 'ROOTCA')
  }
  const [written = 0, all = 0] = [...responsesByStream(running.events).values()].sort((a, b) => a - b)
  assert.equal(all, ROTATIONS + 1)
  assert.ok(written < 10, `${written} responses of 50 kB for a reader whose window is 64 kB`)
  stuck.http.resume()
  while ((await stuck.next()).versionInfo !== LAST);
})

test('while an answer is on its way nothing more is read from that peer', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path, { initialWindowSize: 0 })
  const stream = peer.open()
  for (let request = 0; request < 3_000; request++) stream.ask(WEB)
  await running.event('stream-report', ({ report }) => report.kind === 'pushed')
  for (let round = 0; round < 3; round++) await peer.pinged()
  assert.equal([...responsesByStream(running.events).values()].join(), '1')
  assert.ok(stream.http.writableLength > 0, 'the requests should wait at the peer, whose window is closed')
  stream.onResponse = () => {}
  peer.openWindows(1_000_000)
  stream.http.end()
  await once(stream.http, 'close')
  assert.equal([...responsesByStream(running.events).values()].join(), '3000')
})

test('a paused stream that is refused holds nothing of what its peer sent', async () => {
  await using running = await startServer({ limits: { perCaller: { bytes: 100_000 } } })
  using peer = new RawPeer(running.path, { initialWindowSize: 0 })
  const stream = peer.open()
  stream.ask('ROOTCA')
  await running.event('stream-report', ({ report }) => report.kind === 'pushed')
  for (let request = 0; request < 20_000; request++) stream.ask('ROOTCA')
  for (let round = 0; round < 50 && stream.http.writableLength > 0; round++) await peer.pinged()
  assert.equal(stream.http.writableLength, 0, 'bytes that are not charged any more should not fill the window')
  peer.openWindows(1_000_000)
  assert.equal(Number((await once(stream.http, 'trailers'))[0]['grpc-status']), 8)
})

test('a peer that writes its ACKs before it reads on gets all that is pushed, however long both are', async () => {
  const LONG_NAMES = Array.from({ length: 900 }, (_, index) => `${WEB}-with-a-name-of-some-length-${index}`)
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  stream.ask('ROOTCA', ...LONG_NAMES)
  const first = await stream.next()
  stream.http.pause()
  running.source.setBundle('cluster.local', { version: LAST, padding: 200_000 })
  await running.event('stream-report', () => [...responsesByStream(running.events).values()].join() === '2')
  // Each is about as long as its window of 64 kB.
  for (let round = 0; round < 5; round++) stream.ack(first, 'ROOTCA', ...LONG_NAMES)
  await once(stream.http, 'drain')
  stream.http.resume()
  assert.equal((await stream.next()).versionInfo, LAST)
})

test('requests that arrive together are answered one by one, however many', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  stream.http.cork()
  stream.ask(WEB)
  for (let request = 0; request < 5_000; request++) stream.send({ resourceNames: [WEB], responseNonce: 'stale' })
  stream.ask(WEB)
  stream.http.uncork()
  for (let response = 0; response < 2; response++) await stream.next()
  assert.equal(stream.queued, 0)
  const stale = running.events.filter(event => event.kind === 'stream-report' && event.report.kind === 'stale')
  assert.equal(stale.length, 5_000)
})

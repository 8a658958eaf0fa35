/** Hostile callers of the Workload API: the bounds of SDS hold for both together. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import { RawPeer } from '../../test/raw-peer.ts'
import { startServer, WEB } from '../../test/running-server.ts'
import { WorkloadClient } from '../../test/workload-client.ts'
import type { SdsEvent } from '../events/sds-event.ts'

/** An empty message. */
const REQUEST = Buffer.alloc(5)
/** The first bytes of a message of 4 GiB. */
const HUGE = Buffer.from([0, 0xff, 0xff, 0xff, 0xff])

async function statusOf(stream: ReturnType<RawPeer['openWorkload']>): Promise<number> {
  stream.resume()
  // A refusal before any message is in the headers alone.
  const [headers] = await Promise.race([once(stream, 'trailers'), once(stream, 'response')])
  if (headers['grpc-status'] !== undefined) return Number(headers['grpc-status'])
  const [trailers] = await once(stream, 'trailers')
  return Number(trailers['grpc-status'])
}

test('streams of SDS and of the Workload API are one sum', async () => {
  await using running = await startServer({ identity: WEB, limits: { perCaller: { streams: 10 } } })
  using peer = new RawPeer(running.path)
  for (let index = 0; index < 6; index++) peer.openWorkload().write(REQUEST)
  for (let index = 0; index < 6; index++) peer.open()
  while (running.events.filter(({ kind }) => kind === 'stream-refused').length < 2) await nextTurn()
  assert.equal(running.server.sockets()[0]?.streams, 10)
  assert.equal(await statusOf(peer.openWorkload()), status.RESOURCE_EXHAUSTED)
})

test('the bytes that streams of one hold leave no room for a stream of the other', async () => {
  for (const isSdsFirst of [true, false]) {
    await using running = await startServer({ identity: WEB, limits: { perCaller: { bytes: 200_000 } } })
    using peer = new RawPeer(running.path)
    const open = (isSds: boolean) => void (isSds ? peer.open() : peer.openWorkload())
    const count = (kind: SdsEvent['kind']) => running.events.filter(event => event.kind === kind).length
    const decided = () => count('stream-opened') + count('stream-refused')
    const decide = async (isSds: boolean) => {
      const before = decided()
      open(isSds)
      while (decided() === before) await nextTurn()
    }
    while (count('stream-refused') === 0) await decide(isSdsFirst)
    assert.ok(count('stream-opened') > 1)
    await decide(!isSdsFirst)
    assert.equal(count('stream-refused'), 2)
  }
})

test('calls without end, answered or refused, cut their caller off', async () => {
  for (const method of ['FetchJWTSVID', 'FetchX509Bundles']) {
    await using running = await startServer({ identity: WEB })
    using peer = new RawPeer(running.path)
    const closed = new Promise(resolve => peer.session.on('close', resolve))
    while (!peer.session.destroyed) {
      for (let index = 0; index < 100 && !peer.session.destroyed; index++) {
        const stream = peer.openWorkload(method)
        stream.resume()
        if (method === 'FetchX509Bundles') stream.close()
      }
      await nextTurn()
    }
    await closed
    await running.event('connection-closed')
  }
})

test('a stream that sends no whole request ends at the deadline', async () => {
  await using running = await startServer({ identity: WEB })
  using peer = new RawPeer(running.path)
  const [silent, slow] = [peer.openWorkload(), peer.openWorkload()]
  slow.write(REQUEST.subarray(0, 3))
  await running.event('stream-opened', ({ stream }) => stream.id > 2)
  await peer.pinged()
  const ended = [statusOf(silent), statusOf(slow)]
  await running.source.clock.advance(10_000)
  assert.deepEqual(await Promise.all(ended), [status.DEADLINE_EXCEEDED, status.DEADLINE_EXCEEDED])
})

test('what is not one request of this method ends its stream alone', async () => {
  await using running = await startServer({ identity: WEB })
  using peer = new RawPeer(running.path)
  using client = new WorkloadClient(running.path)
  const neighbour = client.svids()
  await neighbour.next()
  const cases: readonly (readonly [Buffer, number])[] = [
    [HUGE, status.RESOURCE_EXHAUSTED],
    [Buffer.concat([REQUEST, REQUEST]), status.INVALID_ARGUMENT],
    // A field that claims seven bytes and has none.
    [Buffer.from([0, 0, 0, 0, 2, 0x0a, 7]), status.INVALID_ARGUMENT],
  ]
  for (const [bytes, expected] of cases) {
    const stream = peer.openWorkload()
    stream.write(bytes)
    assert.equal(await statusOf(stream), expected)
  }
  await running.source.issue(WEB)
  await neighbour.next()
})

test('readers that do not read hold one response each, and get the newest when they read', async () => {
  const ROTATIONS = 20
  await using running = await startServer({ identity: WEB })
  using peer = new RawPeer(running.path, { initialWindowSize: 0 })
  const stuck = Array.from({ length: 50 }, () => peer.openWorkload())
  for (const stream of stuck) stream.end(REQUEST)
  const pushes = () =>
    running.events.flatMap(event =>
      event.kind === 'stream-report' && event.report.kind === 'pushed' && event.report.name === WEB
        ? [event.stream.id]
        : [],
    )
  while (pushes().length < stuck.length) await nextTurn()
  for (let rotation = 0; rotation < ROTATIONS; rotation++) await running.source.issue(WEB)
  await peer.pinged()
  assert.equal(pushes().length, stuck.length)
  const bytes = stuck.map(stream => {
    let received = 0
    stream.on('data', chunk => {
      received += chunk.length
    })
    return () => received
  })
  peer.openWindows(65_535)
  while (pushes().length < 2 * stuck.length || bytes.some(received => received() < 1_000)) await nextTurn()
  await peer.pinged()
  assert.equal(pushes().length, 2 * stuck.length)
})

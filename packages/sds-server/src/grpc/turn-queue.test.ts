/** Slices of work: bounded, fair, and never twice for one state. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '@livery/core/testing'
import { RawPeer } from '../../test/raw-peer.ts'
import { startServer } from '../../test/running-server.ts'
import { TurnQueue, type TurnTaker } from './turn-queue.ts'

const CONNECTION = {}

function recorder(log: number[], id: number, then = () => {}, connection: object = CONNECTION): TurnTaker {
  return {
    connection,
    takeTurn() {
      log.push(id)
      then()
    },
  }
}

test('nobody gets a turn inside add, and everybody gets one, in order, once', async () => {
  const queue = new TurnQueue(new FakeClock())
  const log: number[] = []
  const takers = [1, 2, 3].map(id => recorder(log, id))
  for (const taker of [...takers, ...takers]) queue.add(taker)
  assert.deepEqual(log, [])
  await nextTurn()
  assert.deepEqual(log, [1, 2, 3])
  await nextTurn()
  assert.deepEqual([log, queue.size], [[1, 2, 3], 0])
})

test('a slice ends after 8 ms, and the event loop turns before the next', async () => {
  const clock = new FakeClock()
  const queue = new TurnQueue(clock)
  const log: number[] = []
  for (const id of [1, 2, 3]) queue.add(recorder(log, id, () => clock.jump(4)))
  await nextTurn()
  assert.deepEqual(log, [1, 2])
  await nextTurn()
  assert.deepEqual(log, [1, 2, 3])
})

test('a slice ends when the clock is set back', async () => {
  const clock = new FakeClock()
  const queue = new TurnQueue(clock)
  const log: number[] = []
  for (const id of [1, 2]) queue.add(recorder(log, id, () => clock.jump(-3_600_000)))
  await nextTurn()
  assert.deepEqual(log, [1])
  await nextTurn()
  assert.deepEqual(log, [1, 2])
})

test('a slice ends after 1,024 turns, though the clock stands still', async () => {
  const queue = new TurnQueue(new FakeClock())
  const log: number[] = []
  for (let id = 0; id < 1_100; id++) queue.add(recorder(log, id))
  await nextTurn()
  assert.equal(log.length, 1_024)
  await nextTurn()
  assert.equal(log.length, 1_100)
})

test('a slice ends after 32 connections, whose streams it does not part', async () => {
  const queue = new TurnQueue(new FakeClock())
  const log: number[] = []
  const connections = Array.from({ length: 40 }, () => ({}))
  const addAll = () => {
    for (const [id, connection] of connections.entries()) queue.add(recorder(log, id, undefined, connection))
  }
  addAll()
  await nextTurn()
  assert.deepEqual(log, [...connections.keys()].slice(0, 32))
  await nextTurn()
  assert.deepEqual(log, [...connections.keys()])

  log.length = 0
  for (const id of [0, 1, 0, 1, 0, 1]) queue.add(recorder(log, id, undefined, connections[id]))
  addAll()
  await nextTurn()
  assert.equal(log.length, 6 + 32)
  await nextTurn()
  assert.equal(log.length, 6 + 40)
})

test('a stream that leaves the queue gets no turn, and one that comes back waits behind the others', async () => {
  const queue = new TurnQueue(new FakeClock())
  const log: number[] = []
  const [first, second, third] = [1, 2, 3].map(id => recorder(log, id)) as [TurnTaker, TurnTaker, TurnTaker]
  for (const taker of [first, second, third]) queue.add(taker)
  queue.delete(second)
  queue.delete(first)
  queue.add(first)
  await nextTurn()
  assert.deepEqual(log, [3, 1])
})

test('a taker that asks for another turn does not hold up the loop', async () => {
  const queue = new TurnQueue(new FakeClock())
  const log: number[] = []
  let turns = 0
  const again = recorder(log, 1, () => {
    if (++turns < 5_000) queue.add(again)
  })
  queue.add(again)
  await nextTurn()
  assert.ok(log.length <= 1_024)
  queue.delete(again)
})

test('a stream that waits for its turn gets the newest of what has changed meanwhile, once', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const streams = Array.from({ length: 600 }, () => peer.open())
  for (const stream of streams) stream.ask('ROOTCA')
  for (const stream of streams) await stream.next()
  for (const version of ['one', 'two', 'three']) running.source.setBundle('cluster.local', { version })
  for (const stream of streams) assert.equal((await stream.next()).versionInfo, 'three')
  const pushed = running.events.filter(event => event.kind === 'stream-report' && event.report.kind === 'pushed')
  assert.equal(pushed.length, 1_200)
})

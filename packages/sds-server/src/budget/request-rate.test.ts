/** Requests of one caller: at its rate and a slice of a turn at a time, in order, over all its sockets, while others are answered. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RawPeer, type RawStream } from '../../test/raw-peer.ts'
import { API, startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'

const RESOURCE_EXHAUSTED = 8
/** The cost of a new stream, and five seconds' worth of ten requests. */
const OPENING = 4
const BURST = 50

/** Connections that come from now on are of `uid`. */
function callers() {
  const caller = { pid: 1, uid: 1, gid: 1 }
  return { caller, readPeerCredentials: () => ({ ...caller }) }
}

/** The names of each answer, in the order in which they came. */
function answersOf(stream: RawStream): Promise<string>[] {
  return Array.from({ length: stream.queued }, async () => namesOf(await stream.next()).join())
}

async function until(isDone: () => boolean): Promise<void> {
  while (!isDone()) await new Promise(setImmediate)
}

test('a caller over its rate waits, on all its sockets together, and gets every answer in order; another is answered meanwhile', async () => {
  const { caller, readPeerCredentials } = callers()
  const limits = { perCaller: { requestsPerSecond: 10 } }
  await using running = await startServer({ limits }, { readPeerCredentials })
  const second = `${running.path}.2`
  await running.server.listen({ path: second, allow: [WEB, API], limits })
  using stack = new DisposableStack()
  const streams = [running.path, running.path, second, second].map(path => stack.use(new RawPeer(path)).open())
  await until(() => running.events.filter(({ kind }) => kind === 'stream-opened').length === streams.length)
  const asked = Array.from({ length: 40 }, (_, index) => (index % 3 ? WEB : API))
  for (const stream of streams) for (const name of asked) stream.ask(name)
  const answered = () => streams.reduce((sum, stream) => sum + stream.queued, 0)
  let expected = BURST - streams.length * OPENING
  await until(() => answered() === expected)

  caller.uid = 2
  using other = running.connect()
  const victim = other.sotw()
  for (let second = 0; second < 20 && expected < 160; second++) {
    victim.ask(WEB)
    assert.deepEqual(namesOf(await victim.next()), [WEB])
    assert.equal(answered(), expected)
    const before = streams.map(stream => stream.queued)
    await running.source.clock.advance(1_000)
    expected = Math.min(160, expected + 10)
    await until(() => answered() === expected)
    const gained = streams.map((stream, index) => stream.queued - (before[index] ?? 0))
    if (streams.every(stream => stream.queued < 40)) assert.ok(Math.min(...gained) >= 1, `${gained}`)
  }
  for (const stream of streams) assert.deepEqual(await Promise.all(answersOf(stream)), asked)
  assert.ok(!running.events.some(({ kind }) => kind === 'stream-refused' || kind === 'connection-refused'))
})

test('ACKs are counted as other requests are', async () => {
  const { caller, readPeerCredentials } = callers()
  await using running = await startServer({ limits: { perCaller: { requestsPerSecond: 10 } } }, { readPeerCredentials })
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  stream.ask(WEB)
  const { nonce: responseNonce } = await stream.next()
  for (let index = 0; index < BURST + 10 - OPENING; index++) stream.send({ resourceNames: [WEB], responseNonce })
  stream.ask(API)
  caller.uid = 2
  using other = running.connect()
  const victim = other.sotw()
  for (const answers of [0, 0, 1]) {
    victim.ask(WEB)
    await victim.next()
    await peer.pinged()
    assert.equal(stream.queued, answers)
    await running.source.clock.advance(1_000)
  }
  assert.deepEqual(namesOf(await stream.next()), [API])
})

test('a caller that its rate holds back is reported at once, and every 10 s while that lasts; one within its rate is not', async () => {
  const { caller, readPeerCredentials } = callers()
  const limits = { perCaller: { requestsPerSecond: 10 } }
  await using running = await startServer({ limits }, { readPeerCredentials })
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  for (let index = 0; index < 250; index++) stream.ask(WEB)
  await until(() => stream.queued === BURST - OPENING)
  caller.uid = 2
  using other = running.connect()
  const calm = other.sotw()
  for (let second = 0; second < 25; second++) {
    calm.ask(WEB)
    await calm.next()
    await running.source.clock.advance(1_000)
  }
  await until(() => stream.queued === 250)
  const slowed = running.events.filter(({ kind }) => kind === 'caller-slowed')
  const event = { kind: 'caller-slowed', socket: running.path, caller: 'uid 1', streams: 1 }
  assert.deepEqual(slowed, [event, event, event])
})

test('a first request that waits for the rate of its caller is not late', async () => {
  const { readPeerCredentials } = callers()
  const limits = { perCaller: { requestsPerSecond: 1 } }
  await using running = await startServer({ limits }, { readPeerCredentials })
  using peer = new RawPeer(running.path)
  const streams = [peer.open(), peer.open()]
  for (const stream of streams) stream.ask(WEB)
  await running.event('stream-opened', ({ stream }) => stream.id === 3)
  await peer.pinged()
  for (let second = 0; second < 25; second++) await running.source.clock.advance(1_000)
  for (const stream of streams) assert.deepEqual(namesOf(await stream.next()), [WEB])
})

test('fetches and health checks of a caller over its rate are refused with the key to set', async () => {
  const { readPeerCredentials } = callers()
  await using running = await startServer({ limits: { perCaller: { requestsPerSecond: 2 } } }, { readPeerCredentials })
  using client = running.connect()
  await client.fetch({ resourceNames: [WEB] })
  await client.health()
  const refusal = { code: RESOURCE_EXHAUSTED, details: /limits\.perCaller\.requestsPerSecond/ }
  await assert.rejects(client.fetch({ resourceNames: [WEB] }), refusal)
  await assert.rejects(client.health(), refusal)
  await running.source.clock.advance(2_000)
  await client.fetch({ resourceNames: [WEB] })
})

test('requests that come together are read a slice at a time', async () => {
  await using running = await startServer()
  using stack = new DisposableStack()
  const peers = Array.from({ length: 4 }, () => stack.use(new RawPeer(running.path)))
  const streams = peers.flatMap(peer => Array.from({ length: 5 }, () => peer.open()))
  for (const stream of streams) stream.ask(WEB)
  for (const stream of streams) await stream.next()
  // ACKs of what was never sent: they are read while an answer is on its way, and each is reported.
  for (const stream of streams) {
    stream.http.cork()
    for (let index = 0; index < 300; index++) stream.send({ resourceNames: [WEB], responseNonce: 'x' })
    stream.http.uncork()
  }
  const before = running.events.length
  const inTurns: number[] = []
  for (let read = 0; read < 6_000; ) {
    await new Promise(setImmediate)
    const now = running.events.length - before
    inTurns.push(now - read)
    read = now
  }
  // Between two turns of this test there may be a part of two slices.
  assert.ok(Math.max(...inTurns) <= 2 * 1_024, `${Math.max(...inTurns)} requests in a turn`)
})

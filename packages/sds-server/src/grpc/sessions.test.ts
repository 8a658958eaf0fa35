/** When the connection of a peer is closed or told to leave, by the clock of a test. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { BEGIN } from '../../test/raw-http2.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { type RunningServer, startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'

const HOUR = 3_600_000

/** A peer that sends those bytes, and no other. */
function silentPeer({ path }: RunningServer, bytes: Buffer): Socket {
  const socket = connect(path).on('error', () => {})
  socket.write(bytes)
  return socket.resume()
}

test('a connection is idle while it has no stream, and is closed behind a GOAWAY', async () => {
  await using running = await startServer({}, { connectionIdleMs: 50_000, keepaliveMs: HOUR })
  const { clock } = running.source
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  stream.ask(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
  let goaways = 0
  peer.session.on('goaway', () => goaways++)
  const left = once(peer.session, 'close')
  await clock.advance(120_000)
  stream.ask('ROOTCA')
  assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
  stream.http.end()
  await once(stream.http, 'close')
  await peer.pinged()
  await clock.advance(49_999)
  await peer.pinged()
  assert.equal(goaways, 0)
  await clock.advance(1)
  await left
  assert.notEqual(goaways, 0)
})

for (const [what, bytes] of [
  ['speaks no HTTP/2', Buffer.from('PRI * HT')],
  ['says nothing', Buffer.alloc(0)],
] as const)
  test(`a connection that ${what} is closed after the idle time`, async () => {
    await using running = await startServer({}, { connectionIdleMs: 20, requestTimeoutMs: HOUR })
    const closed = once(silentPeer(running, bytes), 'close')
    await running.event('connection-opened')
    await running.source.clock.advance(20)
    await closed
    await running.event('connection-closed')
    assert.equal(running.server.sockets()[0]?.connections, 0)
  })

test('a peer that does not answer a PING is sent away, and one that answers stays', async () => {
  await using running = await startServer({}, { keepaliveMs: 30_000, keepaliveTimeoutMs: 10_000 })
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  stream.ask(WEB)
  await stream.next()
  let pings = 0
  peer.session.on('ping', () => pings++)
  const silent = silentPeer(running, BEGIN)
  let isClosed = false
  const closed = once(silent, 'close').then(() => {
    isClosed = true
  })
  await running.event('connection-opened', ({ connection }) => connection.id === 3)
  await running.source.clock.advance(39_999)
  await peer.pinged()
  assert.equal(isClosed, false)
  await running.source.clock.advance(1)
  await closed
  // Each timer fires a turn of the event loop behind the one before, and the answers need more than one.
  await running.source.clock.advance(HOUR)
  stream.ask('ROOTCA')
  assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
  assert.ok(pings > 60, `${pings} PINGs in an hour`)
  // The peer may see the end of its connection before the server does.
  while (running.server.sockets()[0]?.connections !== 1) await setImmediate()
})

test('a socket that closes sends GOAWAY, and open streams continue', async () => {
  await using running = await startServer({}, { drainMs: 5_000 })
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  stream.ask(WEB)
  await stream.next()
  const goaway = once(peer.session, 'goaway')
  const closed = running.server.close()
  const [code] = await goaway
  assert.equal(code, 0)
  stream.ask('ROOTCA')
  assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
  stream.http.end()
  await closed
})

/** Floods from one caller: it is cut off and held, and another caller notices next to nothing. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { BEGIN, END_HEADERS, FRAME, grpcHeaders, rawFrame, uint32 } from '../../test/raw-http2.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { API, startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'

const STREAM = '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets'
const DEADLINE_EXCEEDED = 4

/** Connections that come from now on are of `uid`. */
function callers() {
  const caller = { pid: 1, uid: 2, gid: 2 }
  return { caller, readPeerCredentials: () => ({ ...caller }) }
}

/** Whatever else happens to it. */
function closeOf(socket: Socket): Promise<void> {
  return new Promise(resolve => socket.on('error', () => {}).once('close', () => resolve()))
}

/** `count` frames of each of `of`, on separate streams, in writes of about 64 kB; ends early when the server hangs up. */
async function flood(socket: Socket, count: number, of: (stream: number) => Buffer): Promise<void> {
  socket.on('error', () => {}).resume()
  socket.write(BEGIN)
  const closed = closeOf(socket)
  for (let sent = 0; sent < count && !socket.destroyed; ) {
    const frames: Buffer[] = []
    for (let index = 0; index < 1_000; index++, sent++) frames.push(of(2 * sent + 1))
    if (!socket.write(Buffer.concat(frames)))
      await Promise.race([closed, new Promise<void>(resolve => socket.once('drain', () => resolve()))])
  }
}

const headers = grpcHeaders(STREAM)
const unknownHeaders = grpcHeaders('/nobody.knows/It')
/** `:method: GET`, from the static table, a thousand times. */
const indexed = Buffer.alloc(1_000, 0x82)

const FLOODS: Readonly<Record<string, (stream: number) => Buffer>> = {
  'streams that are opened and reset': stream =>
    Buffer.concat([
      rawFrame(FRAME.headers, END_HEADERS, stream, headers),
      rawFrame(FRAME.reset, 0, stream, Buffer.from([0, 0, 0, 8])),
    ]),
  'streams of a method that nobody knows': stream => rawFrame(FRAME.headers, END_HEADERS, stream, unknownHeaders),
  PINGs: () => rawFrame(FRAME.ping, 0, 0, Buffer.alloc(8)),
  SETTINGS: () => rawFrame(FRAME.settings, 0, 0, Buffer.from([0, 4, 0, 0, 255, 255])),
  'indexed headers': stream => rawFrame(FRAME.headers, END_HEADERS, stream, indexed),
  // PRIORITY
  'frames that are ignored': stream => rawFrame(2, 0, stream + 2, Buffer.from([0, 0, 0, 0, 1])),
}

for (const [what, frames] of Object.entries(FLOODS)) {
  test(`a flood of ${what} ends its connection, and another caller is served`, async () => {
    const { caller, readPeerCredentials } = callers()
    await using running = await startServer({}, { readPeerCredentials })
    const victim = running.connect().sotw()
    victim.ask(WEB)
    await victim.next()
    caller.uid = 1
    const socket = connect(running.path)
    const closed = closeOf(socket)
    const flooding = flood(socket, 1_000_000, frames)
    // The bytes of connections are looked at once a second, of the server's clock.
    const ticking = setInterval(() => void running.source.clock.advance(1_000), 20)
    await Promise.race([closed, flooding])
    clearInterval(ticking)
    assert.ok(socket.destroyed, 'a million frames were taken')
    victim.ask(WEB)
    assert.deepEqual(namesOf(await victim.next()), [WEB])
  })
}

test('of a caller that is cut off, connections that have sent no request are closed, and one with a stream is served', async () => {
  await using running = await startServer()
  const good = running.connect().sotw()
  good.ask(WEB)
  await good.next()
  const peers = Array.from({ length: 20 }, () => new RawPeer(running.path))
  const closed = peers.map(async ({ session }) => await once(session, 'close'))
  await Promise.all(peers.map(peer => peer.pinged()))
  const socket = connect(running.path)
  await Promise.race([
    closeOf(socket),
    flood(socket, 1_000_000, stream => rawFrame(FRAME.headers, END_HEADERS, stream, unknownHeaders)),
  ])
  await Promise.all(closed)
  good.ask(WEB)
  assert.deepEqual(namesOf(await good.next()), [WEB])
})

test('a client that sends a PING for each message it reads, as gRPC in Go does, keeps its connection', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  for (let request = 0; request < 500; request++) {
    stream.ask(request % 2 ? WEB : API)
    await stream.next()
    await peer.pinged()
  }
  assert.ok(!peer.session.destroyed)
})

test('clients that leave as gRPC in Go does, with a GOAWAY of the last possible stream, are not held for it', async () => {
  await using running = await startServer()
  const goAway = rawFrame(FRAME.goAway, 0, 0, Buffer.concat([uint32(0x7fff_ffff), uint32(0)]))
  for (let client = 0; client < 40; client++) {
    const socket = connect(running.path)
    const closed = closeOf(socket)
    socket.resume().end(Buffer.concat([BEGIN, goAway]))
    await closed
  }
  const stream = running.connect().sotw()
  stream.ask(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

test('a flood of data on a stream that was refused ends its connection', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  stream.ask(WEB)
  await stream.next()
  stream.http.write(Buffer.from([0, 0, 0, 0, 1, 0xff]))
  await once(stream.http, 'trailers')
  const closed = new Promise(resolve => peer.session.once('close', resolve))
  for (let second = 0; second < 8 && !peer.session.destroyed; second++) {
    const written = new Promise(resolve => stream.http.write(Buffer.alloc(16_777_216), resolve))
    await Promise.race([written, closed])
    await running.source.clock.advance(1_000)
  }
  assert.ok(peer.session.destroyed, '128 MB were taken for a call that was over')
})

test('a caller that comes again with rapid resets is held at accept, for longer each time, and others are not', async () => {
  const { caller, readPeerCredentials } = callers()
  await using running = await startServer({}, { readPeerCredentials })
  const { clock } = running.source
  caller.uid = 1
  const refusals = () => running.events.filter(event => event.kind === 'connection-refused')
  const attackUntilHeld = async () => {
    const before = refusals().length
    for (let attack = 0; attack < 100 && refusals().length === before; attack++) {
      const socket = connect(running.path)
      const closed = closeOf(socket)
      await flood(socket, 100_000, stream => FLOODS['streams that are opened and reset']?.(stream) ?? Buffer.alloc(0))
      await closed
    }
  }
  const isLetIn = async () => {
    const before = running.events.length
    const socket = connect(running.path).on('error', () => {})
    let event: (typeof running.events)[number] | undefined
    while (!event) {
      await new Promise(setImmediate)
      event = running.events
        .slice(before)
        .find(({ kind }) => kind === 'connection-opened' || kind === 'connection-refused')
    }
    socket.destroy()
    return event.kind === 'connection-opened'
  }
  for (const seconds of [5, 10, 20]) {
    await attackUntilHeld()
    caller.uid = 2
    assert.equal(await isLetIn(), true)
    caller.uid = 1
    await clock.advance(seconds * 1_000 - 1)
    assert.equal(await isLetIn(), false, `it was let in before ${seconds} s`)
    await clock.advance(1)
    assert.equal(await isLetIn(), true, `it was not let in after ${seconds} s`)
  }
  assert.ok(refusals().every(({ reason }) => reason === 'caller-held'))
})

test('2,001 streams of one Envoy that come and go twice are not misuse', async () => {
  const { caller, readPeerCredentials } = callers()
  caller.uid = 1
  await using running = await startServer({}, { readPeerCredentials })
  for (let time = 0; time < 2; time++) {
    using first = new RawPeer(running.path)
    using second = new RawPeer(running.path)
    // It opens 1,024 on a connection.
    for (let index = 0; index < 2_001; index++) (index < 1_024 ? first : second).open()
    await running.event('stream-opened', ({ stream }) => stream.id > 2_001)
    for (const peer of [first, second]) await peer.pinged()
  }
  const client = running.connect().sotw()
  client.ask(WEB)
  assert.deepEqual(namesOf(await client.next()), [WEB])
  assert.ok(!running.events.some(({ kind }) => kind === 'connection-refused'))
})

test('peers that are killed before they have read everything are not misuse', async () => {
  const { caller, readPeerCredentials } = callers()
  caller.uid = 1
  await using running = await startServer({}, { readPeerCredentials })
  for (let id = 1; id <= 100; id++) {
    const socket = connect(running.path)
      .on('error', () => {})
      .pause()
    socket.write(BEGIN)
    await running.event('connection-opened', ({ connection }) => connection.id === id)
    // The SETTINGS of the server are in the socket then.
    await new Promise(setImmediate)
    socket.destroy()
    await running.event('connection-closed', ({ connection }) => connection.id === id)
  }
  assert.ok(!running.events.some(({ kind }) => kind === 'connection-refused'))
})

test('a stream without a whole request ends after 10 s, and so does a connection without its preface', async () => {
  await using running = await startServer()
  const client = running.connect()
  const silent = client.sotw()
  const half = client.raw()
  const served = client.sotw()
  served.ask(WEB)
  await served.next()
  const sockets = [connect(running.path), connect(running.path)]
  sockets[0]?.write('PRI * HT')
  sockets[1]?.write(BEGIN.subarray(0, 24))
  using peer = new RawPeer(running.path)
  const partial = peer.open()
  partial.http.write(Buffer.from([0, 0, 0, 1, 0, 0x1a]))
  const later = peer.open()
  later.ask(WEB)
  half.write(Buffer.alloc(1))
  await half.status
  for (const id of [1, 2, 3, 4]) await running.event('connection-opened', ({ connection }) => connection.id >= id)
  await later.next()
  later.http.write(Buffer.from([0, 0, 0, 1, 0, 0x1a]))
  await peer.pinged()
  const ends = Promise.all(sockets.map(socket => once(socket.resume(), 'close')))
  const partialEnds = Promise.all([once(partial.http, 'close'), once(later.http, 'trailers')])
  await running.source.clock.advance(10_001)
  await ends
  await partialEnds
  assert.equal((await silent.status).code, DEADLINE_EXCEEDED)
  served.ask(WEB)
  assert.deepEqual(namesOf(await served.next()), [WEB])
})

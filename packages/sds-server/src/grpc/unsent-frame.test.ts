import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerHttp2Stream } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '@livery/core/testing'
import { listening, TemporaryFolder } from '@livery/test-support'
import { collectGarbage } from '../../../core/test/heap-growth.ts'
import { ACK, END_HEADERS, FRAME, grpcHeaders, PREFACE, rawFrame, uint16, uint32 } from '../../test/raw-http2.ts'
import { testBudget } from '../../test/test-budget.ts'
import { UnsentMemory } from '../budget/unsent-memory.ts'
import { ResponseFrame } from '../protocol/response-frame.ts'
import { Http2Call } from './http2-call.ts'

const FRAME_BYTES = 4_096
/** The window of each stream: it divides the frame. */
const WINDOW = 2_000
/** More than the buffers of a socket. */
const FILLER_BYTES = 2_000_000
/** RFC 9113, section 6.5.2. */
const INITIAL_WINDOW_SIZE = 4
const CANCEL = 8

const windowUpdate = (stream: number, bytes: number) => rawFrame(FRAME.windowUpdate, 0, stream, uint32(bytes))
const headers = (stream: number) => rawFrame(FRAME.headers, END_HEADERS, stream, grpcHeaders('/'))

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await nextTurn()
}

/** Lets the peer read and answer, as far as the socket has room: server and peer share the event loop. Node 24 reads nothing while it has none. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await nextTurn()
}

/** Streams of a peer that reads nothing: the first has a window for everything. */
async function stalledPeer({ count = 2, bytes = 2 ** 20 } = {}) {
  await using parts = new AsyncDisposableStack()
  const { path: directory } = parts.use(new TemporaryFolder())
  const path = join(directory, 's.sock')
  const server = createServer()
  const streams = new Map<number | undefined, ServerHttp2Stream>()
  const opened = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  const unsent = Promise.withResolvers<UnsentMemory>()
  const budget = testBudget({ bytes })
  server.on('connection', connection => {
    connection.once('close', () => closed.resolve())
    unsent.resolve(new UnsentMemory(connection, budget))
  })
  server.on('stream', stream => {
    stream.on('error', () => {})
    stream.respond({ ':status': 200 })
    streams.set(stream.id, stream)
    if (streams.size === count) opened.resolve()
  })
  await listening(server, path)
  const socket = connect(path)
  socket.pause()
  parts.defer(async () => {
    socket.destroy()
    server.close()
    await once(server, 'close')
  })
  const settings = Buffer.concat([uint16(INITIAL_WINDOW_SIZE), uint32(WINDOW)])
  socket.write(Buffer.concat([PREFACE, rawFrame(FRAME.settings, 0, 0, settings), windowUpdate(0, 2 ** 30), headers(1)]))
  const others = Array.from({ length: count - 1 }, (_, index) => headers(3 + 2 * index))
  socket.write(Buffer.concat([windowUpdate(1, 2 ** 29), ...others]))
  await opened.promise
  await settled()
  const stack = parts.move()
  const rest = { unsent: await unsent.promise, closed: closed.promise, charged: () => budget.account.bytes }
  return { socket, streams, ...rest, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

/** Writes a frame to each of the streams, and returns its memory. */
function writeDivided(
  { streams, unsent }: Awaited<ReturnType<typeof stalledPeer>>,
  ids: readonly number[],
  onReleased: () => void = () => {},
): WeakRef<ArrayBufferLike> {
  const written = new ResponseFrame(FRAME_BYTES - ResponseFrame.start)
  written.bytes.fill('A')
  const release = written.release.bind(written)
  written.release = isWritten => {
    release(isWritten)
    onReleased()
  }
  for (const id of ids) {
    const stream = streams.get(id)
    assert.ok(stream)
    const call = new Http2Call(stream, {}, new FakeClock())
    call.sendFrame(written.acquire(), unsent, () => assert.fail('it was never written whole'))
  }
  return new WeakRef(written.bytes.buffer)
}

async function isCollected(memory: WeakRef<ArrayBufferLike>): Promise<boolean> {
  for (let tries = 0; tries < 10; tries++) {
    await nextTurn()
    collectGarbage()
  }
  return memory.deref() === undefined
}

/** Reads all that waits, answers PINGs, and returns the bytes of DATA frames of the second stream. Its own PING is answered behind them. */
async function readSecond(socket: Socket): Promise<Buffer> {
  const found: Buffer[] = []
  let unread: Buffer = Buffer.alloc(0)
  const { promise: answered, resolve } = Promise.withResolvers<void>()
  socket.on('data', chunk => {
    unread = Buffer.concat([unread, chunk])
    while (unread.length >= 9 && unread.length >= 9 + unread.readUIntBE(0, 3)) {
      const end = 9 + unread.readUIntBE(0, 3)
      const [type, flags, id] = [unread.readUInt8(3), unread.readUInt8(4), unread.readUInt32BE(5)]
      const payload = unread.subarray(9, end)
      if (type === FRAME.data && id === 3) found.push(payload)
      if (type === FRAME.ping && flags !== ACK) socket.write(rawFrame(FRAME.ping, ACK, 0, payload))
      if (type === FRAME.ping && flags === ACK) resolve()
      unread = unread.subarray(end)
    }
  })
  socket.write(rawFrame(FRAME.ping, 0, 0, Buffer.alloc(8)))
  socket.resume()
  await answered
  return Buffer.concat(found)
}

for (const [how, end] of [
  ['its peer resets the stream', ({ socket }) => void socket.write(rawFrame(FRAME.reset, 0, 3, uint32(CANCEL)))],
  ['the stream is destroyed', ({ streams }) => void streams.get(3)?.destroy()],
] satisfies [string, (peer: Awaited<ReturnType<typeof stalledPeer>>) => void][])
  test(`a peer reads nothing but its own frame, a part of which waits in its socket, when ${how}`, async () => {
    await using peer = await stalledPeer()
    let isReleased = false
    peer.streams.get(1)?.write(Buffer.alloc(FILLER_BYTES), () => {})
    const memory = writeDivided(peer, [3], () => {
      isReleased = true
    })
    await settled()
    end(peer)
    peer.streams.delete(3)
    await settled()
    assert.equal(await isCollected(memory), false)
    // Node 24 keeps the memory itself until the socket has room again, and only then calls the callback of a write that was reset.
    assert.equal(peer.charged(), isReleased ? FRAME_BYTES : 0)
    const others = Array.from({ length: 3_000 }, () => Buffer.allocUnsafeSlow(FRAME_BYTES).fill('B'))
    const read = (await readSecond(peer.socket)).subarray(ResponseFrame.start)
    assert.equal(others.length, 3_000)
    assert.ok(read.length > 0 && read.every(byte => byte === 65), read.toString('hex', 0, 40))
    await until(() => isReleased && peer.charged() === 0)
    assert.equal(await isCollected(memory), true)
  })

test('a peer that leaves more unread than its caller has room for loses its connection, and all that was kept for it is freed', async () => {
  await using peer = await stalledPeer({ count: 14, bytes: 10 * FRAME_BYTES })
  peer.streams.get(1)?.write(Buffer.alloc(FILLER_BYTES), () => {})
  const ids = [...peer.streams.keys()].filter(id => id !== undefined && id !== 1).map(Number)
  const memory = ids.map(id => writeDivided(peer, [id]))
  await settled()
  for (const id of ids.slice(0, 10)) peer.streams.get(id)?.destroy()
  await settled()
  assert.equal(peer.charged(), 10 * FRAME_BYTES)
  for (const id of ids.slice(10)) peer.streams.get(id)?.destroy()
  await peer.closed
  peer.streams.clear()
  await until(() => peer.charged() === 0)
  for (const each of memory) assert.equal(await isCollected(each), true)
})

test('an answer to a PING that the peer has not read frees nothing', async () => {
  await using peer = await stalledPeer()
  peer.streams.get(1)?.write(Buffer.alloc(FILLER_BYTES), () => {})
  const memory = writeDivided(peer, [3])
  await settled()
  peer.streams.get(3)?.destroy()
  await settled()
  peer.socket.write(rawFrame(FRAME.ping, ACK, 0, Buffer.alloc(8)))
  await settled()
  peer.streams.clear()
  assert.deepEqual([await isCollected(memory), peer.charged()], [false, FRAME_BYTES])
})

test('a frame that two streams have is kept for each', async () => {
  await using peer = await stalledPeer({ count: 3 })
  peer.streams.get(1)?.write(Buffer.alloc(FILLER_BYTES), () => {})
  const memory = writeDivided(peer, [3, 5])
  await settled()
  peer.streams.get(3)?.destroy()
  await settled()
  assert.equal(peer.charged(), FRAME_BYTES)
  peer.streams.get(5)?.destroy()
  await settled()
  assert.equal(peer.charged(), 2 * FRAME_BYTES)
  peer.streams.clear()
  assert.equal(await isCollected(memory), false)
  await readSecond(peer.socket)
  await until(() => peer.charged() === 0)
})

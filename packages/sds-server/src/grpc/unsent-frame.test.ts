import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerHttp2Stream } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { temporaryDirectory } from '../../test/running-server.ts'
import { testBudget } from '../../test/test-budget.ts'
import { UnsentMemory } from '../budget/unsent-memory.ts'
import { ResponseFrame } from '../protocol/response-frame.ts'
import { writeFrame } from './send-frame.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const FRAME_BYTES = 4_096
/** The window of each stream: it divides the frame. */
const WINDOW = 2_000
/** More than the buffers of a socket. */
const FILLER_BYTES = 2_000_000
const [DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE] = [0, 1, 3, 4, 6, 8]
const END_HEADERS = 4
const ACK = 1

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

function number(value: number, bytes = 4): Buffer {
  const buffer = Buffer.alloc(bytes)
  buffer.writeUIntBE(value, 0, bytes)
  return buffer
}

const headers = (stream: number) => {
  const literal = (text: string) => [Buffer.from([text.length]), Buffer.from(text)]
  const fields = [':method', 'POST', ':path', '/', ':scheme', 'http', ':authority', 'a']
  const parts = fields.flatMap((text, index) =>
    index % 2 === 0 ? [Buffer.from([0]), ...literal(text)] : literal(text),
  )
  return frame(HEADERS, END_HEADERS, stream, Buffer.concat(parts))
}

/** Streams of a peer that reads nothing: the first has a window for everything. */
async function stalledPeer({ count = 2, bytes = 2 ** 20 } = {}) {
  await using parts = new AsyncDisposableStack()
  const { path: directory } = parts.use(await temporaryDirectory())
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
  server.listen(path)
  await once(server, 'listening')
  const socket = connect(path)
  socket.pause()
  parts.defer(async () => {
    socket.destroy()
    server.close()
    await once(server, 'close')
  })
  const window = Buffer.concat([number(4, 2), number(WINDOW)])
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  socket.write(Buffer.concat([frame(SETTINGS, 0, 0, window), frame(WINDOW_UPDATE, 0, 0, number(2 ** 30)), headers(1)]))
  const others = Array.from({ length: count - 1 }, (_, index) => headers(3 + 2 * index))
  socket.write(Buffer.concat([frame(WINDOW_UPDATE, 0, 1, number(2 ** 29)), ...others]))
  await opened.promise
  await sleep(50)
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
  const bytes = ResponseFrame.allocate(FRAME_BYTES - ResponseFrame.start)
  bytes.fill('A')
  const written = new ResponseFrame(bytes, [])
  const release = written.release.bind(written)
  written.release = isWritten => {
    release(isWritten)
    onReleased()
  }
  for (const id of ids) {
    const stream = streams.get(id)
    assert.ok(stream)
    writeFrame(stream, written.acquire(), unsent, () => assert.fail('it was never written whole'))
  }
  return new WeakRef(bytes.buffer)
}

async function isCollected(memory: WeakRef<ArrayBufferLike>): Promise<boolean> {
  for (let tries = 0; tries < 10; tries++) {
    await nextTurn()
    collect()
  }
  return memory.deref() === undefined
}

/** Reads all that waits, answers PINGs, and returns the bytes of DATA frames of the second stream. */
async function readSecond(socket: Socket): Promise<Buffer> {
  const found: Buffer[] = []
  let unread: Buffer = Buffer.alloc(0)
  socket.on('data', chunk => {
    unread = Buffer.concat([unread, chunk])
    while (unread.length >= 9 && unread.length >= 9 + unread.readUIntBE(0, 3)) {
      const end = 9 + unread.readUIntBE(0, 3)
      const [type, flags, id] = [unread.readUInt8(3), unread.readUInt8(4), unread.readUInt32BE(5)]
      const payload = unread.subarray(9, end)
      if (type === DATA && id === 3) found.push(payload)
      if (type === PING && flags !== ACK) socket.write(frame(PING, ACK, 0, payload))
      unread = unread.subarray(end)
    }
  })
  socket.resume()
  await sleep(300)
  return Buffer.concat(found)
}

for (const [how, end] of [
  ['its peer resets the stream', ({ socket }) => void socket.write(frame(RST_STREAM, 0, 3, number(8)))],
  ['the stream is destroyed', ({ streams }) => void streams.get(3)?.destroy()],
] satisfies [string, (peer: Awaited<ReturnType<typeof stalledPeer>>) => void][])
  test(`a peer reads nothing but its own frame, of which a part waits in its socket, when ${how}`, async () => {
    await using peer = await stalledPeer()
    let isReleased = false
    peer.streams.get(1)?.write(Buffer.alloc(FILLER_BYTES), () => {})
    const memory = writeDivided(peer, [3], () => {
      isReleased = true
    })
    await sleep(50)
    end(peer)
    peer.streams.delete(3)
    await sleep(50)
    assert.equal(await isCollected(memory), false)
    // Node 24 tells of a write that its peer reset when the socket has room again, and keeps the memory until then.
    assert.equal(peer.charged(), isReleased ? FRAME_BYTES : 0)
    const others = Array.from({ length: 3_000 }, () => Buffer.allocUnsafeSlow(FRAME_BYTES).fill('B'))
    const read = (await readSecond(peer.socket)).subarray(ResponseFrame.start)
    assert.equal(others.length, 3_000)
    assert.ok(read.length > 0 && read.every(byte => byte === 65), read.toString('hex', 0, 40))
    assert.ok(isReleased)
    assert.equal(await isCollected(memory), true)
    assert.equal(peer.charged(), 0)
  })

test('a peer that leaves more unread than its caller has room for loses its connection, and all that was kept for it is freed', async () => {
  await using peer = await stalledPeer({ count: 14, bytes: 10 * FRAME_BYTES })
  peer.streams.get(1)?.write(Buffer.alloc(FILLER_BYTES), () => {})
  const ids = [...peer.streams.keys()].filter(id => id !== undefined && id !== 1).map(Number)
  const memory = ids.map(id => writeDivided(peer, [id]))
  await sleep(50)
  for (const id of ids.slice(0, 10)) peer.streams.get(id)?.destroy()
  await sleep(50)
  assert.equal(peer.charged(), 10 * FRAME_BYTES)
  for (const id of ids.slice(10)) peer.streams.get(id)?.destroy()
  await peer.closed
  peer.streams.clear()
  await sleep(50)
  assert.equal(peer.charged(), 0)
  for (const each of memory) assert.equal(await isCollected(each), true)
})

test('an answer to a PING that the peer has not read frees nothing', async () => {
  await using peer = await stalledPeer()
  peer.streams.get(1)?.write(Buffer.alloc(FILLER_BYTES), () => {})
  const memory = writeDivided(peer, [3])
  await sleep(50)
  peer.streams.get(3)?.destroy()
  await sleep(50)
  peer.socket.write(frame(PING, ACK, 0, Buffer.alloc(8)))
  await sleep(50)
  peer.streams.clear()
  assert.deepEqual([await isCollected(memory), peer.charged()], [false, FRAME_BYTES])
})

test('a frame that two streams have is kept for each', async () => {
  await using peer = await stalledPeer({ count: 3 })
  peer.streams.get(1)?.write(Buffer.alloc(FILLER_BYTES), () => {})
  const memory = writeDivided(peer, [3, 5])
  await sleep(50)
  peer.streams.get(3)?.destroy()
  await sleep(50)
  assert.equal(peer.charged(), FRAME_BYTES)
  peer.streams.get(5)?.destroy()
  await sleep(50)
  assert.equal(peer.charged(), 2 * FRAME_BYTES)
  peer.streams.clear()
  assert.equal(await isCollected(memory), false)
  await readSecond(peer.socket)
  assert.equal(peer.charged(), 0)
})

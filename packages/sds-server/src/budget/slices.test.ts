/** Thousands of streams that open or end at once: the event loop turns between them, and others are answered. */
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { BEGIN, END_HEADERS, FRAME, grpcHeaders, rawFrame } from '../../test/raw-http2.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { type RunningServer, startServer, WEB } from '../../test/running-server.ts'

const CONNECTIONS = 4
const STREAMS = 500
/** Two slices can come between two looks. */
const MOST_CLOSED = 2 * 128
const MOST_OPENED = 2 * 64
const MOST_LATE = 2 * 64
const HEADERS = grpcHeaders('/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets')

function streamsOf({ server }: RunningServer): number {
  return server.sockets()[0]?.streams ?? 0
}

/** The connections of a caller that asks for thousands of streams in one write each. */
function openMany(running: RunningServer, streams = STREAMS): readonly Socket[] {
  const opened = Array.from({ length: streams }, (_, index) =>
    rawFrame(FRAME.headers, END_HEADERS, 2 * index + 1, HEADERS),
  )
  const sockets = Array.from({ length: CONNECTIONS }, () => connect(running.path))
  for (const socket of sockets) socket.on('error', () => {}).write(Buffer.concat([BEGIN, ...opened]))
  return sockets
}

/** Returns the connections once all their streams are open. */
async function openAll(running: RunningServer): Promise<readonly Socket[]> {
  const sockets = openMany(running)
  while (streamsOf(running) < CONNECTIONS * STREAMS) await nextTurn()
  return sockets
}

/** The most streams that came or went between two turns of the event loop, until there are `wanted`. */
async function mostInOneTurn(running: RunningServer, wanted: number): Promise<number> {
  let most = 0
  for (let open = streamsOf(running); open !== wanted; ) {
    await nextTurn()
    const now = streamsOf(running)
    most = Math.max(most, Math.abs(open - now))
    open = now
  }
  return most
}

const ENDS: readonly (readonly [name: string, end: (socket: Socket, running: RunningServer) => void])[] = [
  ['the peer leaves', socket => socket.destroy()],
  ['the peer breaks the protocol', socket => void socket.write(rawFrame(FRAME.data, 0, 0, Buffer.alloc(4)))],
]

for (const [name, end] of ENDS) {
  test(`thousands of streams end in slices when ${name}`, async () => {
    await using running = await startServer()
    for (const socket of await openAll(running)) end(socket, running)
    const most = await mostInOneTurn(running, 0)
    assert.ok(most <= MOST_CLOSED, `${most} streams ended in one turn`)
    await running.event('connection-closed', () => running.server.sockets()[0]?.connections === 0)
  })
}

test('a caller that is shut out while its connections close is cut off in the same turn', async () => {
  const caller = { pid: 1, uid: 1_000, gid: 1_000 }
  await using running = await startServer({ callers: [{ uid: 1_000 }] }, { readPeerCredentials: () => caller })
  const sockets = await openAll(running)
  for (const socket of sockets) socket.destroy()
  running.server.prepareAccess([{ path: running.path, allow: [WEB], callers: [{ uid: 2_000 }] }])()
  await nextTurn()
  assert.equal(running.server.sockets()[0]?.connections, 0)
})

test('thousands of streams open in slices', async () => {
  await using running = await startServer()
  const sockets = openMany(running)
  const most = await mostInOneTurn(running, CONNECTIONS * STREAMS)
  assert.ok(most <= MOST_OPENED, `${most} streams opened in one turn`)
  for (const socket of sockets) socket.destroy()
})

test('thousands of streams without a request end in slices when their time is over', async () => {
  await using running = await startServer()
  const sockets = await openAll(running)
  const ended = mostInOneTurn(running, 0)
  await running.source.clock.advance(10_000)
  const most = await ended
  assert.ok(most <= Math.max(MOST_LATE, MOST_CLOSED), `${most} streams ended in one turn`)
  for (const socket of sockets) socket.destroy()
})

test('a new stream of another caller does not wait for the thousands of one', async () => {
  const caller = { pid: 1, uid: 1, gid: 1 }
  await using running = await startServer({}, { readPeerCredentials: () => ({ ...caller }) })
  using other = new RawPeer(running.path)
  await other.pinged()
  caller.uid = 2
  const sockets = openMany(running, 1_500)
  while (streamsOf(running) === 0) await nextTurn()
  const stream = other.open()
  stream.ask('ROOTCA')
  await stream.next()
  assert.ok(streamsOf(running) < CONNECTIONS * 1_500)
  for (const socket of sockets) socket.destroy()
})

/** Connections that end with thousands of streams: in whatever way, the event loop turns between the streams. */
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { BEGIN, END_HEADERS, FRAME, grpcHeaders, rawFrame } from '../../test/raw-http2.ts'
import { type RunningServer, startServer, WEB } from '../../test/running-server.ts'

const CONNECTIONS = 4
const STREAMS = 500
const SLICE = 128
const HEADERS = grpcHeaders('/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets')

function streamsOf({ server }: RunningServer): number {
  return server.sockets()[0]?.streams ?? 0
}

/** Returns the connections of a caller once all their streams are open. */
async function openAll(running: RunningServer): Promise<readonly Socket[]> {
  const opened = Array.from({ length: STREAMS }, (_, index) =>
    rawFrame(FRAME.headers, END_HEADERS, 2 * index + 1, HEADERS),
  )
  const sockets = Array.from({ length: CONNECTIONS }, () => connect(running.path))
  for (const socket of sockets) socket.on('error', () => {}).write(Buffer.concat([BEGIN, ...opened]))
  while (streamsOf(running) < CONNECTIONS * STREAMS) await nextTurn()
  return sockets
}

/** The most streams that ended between two turns of the event loop, until all have. */
async function mostInOneTurn(running: RunningServer): Promise<number> {
  let most = 0
  for (let open = streamsOf(running); open > 0; ) {
    await nextTurn()
    const left = streamsOf(running)
    most = Math.max(most, open - left)
    open = left
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
    // Two slices can come between two looks.
    const most = await mostInOneTurn(running)
    assert.ok(most <= 2 * SLICE, `${most} streams ended in one turn`)
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

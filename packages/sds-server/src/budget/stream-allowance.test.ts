/** How many streams a connection may have: it grows with those that sent a request, and no acknowledgement is waited for to refuse. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { BEGIN, END_HEADERS, FRAME, grpcHeaders, rawFrame } from '../../test/raw-http2.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { startServer } from '../../test/running-server.ts'
import { UNPROVEN_STREAMS } from './stream-allowance.ts'

const HEADERS = grpcHeaders('/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets')
const REFUSED_STREAM = 7

/** The streams of a peer that opens `count` in one write and acknowledges no SETTINGS, which are refused. */
async function refusedOf(path: string, count: number): Promise<number> {
  const socket = connect(path)
  const opened = Array.from({ length: count }, (_, at) => rawFrame(FRAME.headers, END_HEADERS, 2 * at + 1, HEADERS))
  const ping = rawFrame(FRAME.ping, 0, 0, Buffer.alloc(8))
  socket.write(Buffer.concat([BEGIN, ...opened, ping]))
  let refused = 0
  let unread = Buffer.alloc(0)
  for (let isAnswered = false; !isAnswered; ) {
    const [data] = await once(socket, 'data')
    unread = Buffer.concat([unread, data])
    for (let end = 9; unread.length >= end && unread.length >= 9 + unread.readUIntBE(0, 3); end = 9) {
      const length = unread.readUIntBE(0, 3)
      const type = unread[3]
      if (type === FRAME.reset && unread.readUInt32BE(9) === REFUSED_STREAM) refused++
      if (type === FRAME.ping) isAnswered = true
      unread = unread.subarray(9 + length)
    }
  }
  socket.destroy()
  return refused
}

test('streams beyond those that a connection may begin with are refused before the peer has acknowledged anything', async () => {
  await using running = await startServer()
  assert.equal(await refusedOf(running.path, UNPROVEN_STREAMS), 0)
  assert.equal(await refusedOf(running.path, UNPROVEN_STREAMS + 100), 100)
})

test('a peer that sends a request on each of its streams can have thousands, and as many again after they ended', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  for (let time = 0; time < 2; time++) {
    const streams = []
    while (streams.length < 3 * UNPROVEN_STREAMS) {
      const some = Array.from({ length: 256 }, () => peer.open())
      for (const stream of some) stream.ask('ROOTCA')
      for (const stream of some) await stream.next()
      streams.push(...some)
    }
    const closed = streams.map(({ http }) => once(http, 'close'))
    for (const { http } of streams) http.end()
    await Promise.all(closed)
  }
  assert.ok(!running.events.some(({ kind }) => kind === 'stream-refused'))
})

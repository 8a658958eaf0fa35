/** One Envoy of 2,001 streams on two connections, with real first requests, starts and starts again: nobody is cut off. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { RawPeer } from '../../test/raw-peer.ts'
import { startServer } from '../../test/running-server.ts'

const message = readFileSync(new URL('../../test/fixtures/first-request-ROOTCA.bin', import.meta.url))
const head = Buffer.alloc(5)
head.writeUInt32BE(message.length, 1)
const FIRST_REQUEST = Buffer.concat([head, message])

test('2,001 streams with first requests of 61 kB on two connections are all answered, twice, with the default limits', async () => {
  await using running = await startServer({}, { readPeerCredentials: () => ({ pid: 1, uid: 1, gid: 1 }) })
  for (let start = 0; start < 2; start++) {
    using first = new RawPeer(running.path)
    using second = new RawPeer(running.path)
    const streams = Array.from({ length: 2_001 }, (_, index) => (index % 2 ? first : second).open())
    for (const stream of streams) stream.http.write(FIRST_REQUEST)
    for (const stream of streams) stream.ack(await stream.next(), 'ROOTCA')
  }
  const refused = running.events.filter(({ kind }) => kind === 'stream-refused' || kind === 'connection-refused')
  assert.deepEqual(refused, [])
})

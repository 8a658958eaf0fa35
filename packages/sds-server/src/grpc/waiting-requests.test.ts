/** Requests that wait, for the turn of their caller or behind a response: charged in full, and nothing else is kept with them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { collectGarbage } from '../../../core/test/heap-growth.ts'
import { peerNode } from '../../test/peer-node.ts'
import { RawPeer, requestFrame } from '../../test/raw-peer.ts'
import { type RunningServer, startServer, WEB } from '../../test/running-server.ts'

const SDS = '/envoy.service.secret.v3.SecretDiscoveryService'
const STREAMS = 100
const FRAME_BYTES = 16_384
/** A quarter of what Node's pool would keep for each stream. */
const MOST_BESIDE = (STREAMS * 65_536) / 4

function charged({ server }: RunningServer): number {
  return [...server.callers()].reduce((sum, { bytes }) => sum + bytes, 0)
}

async function bufferBytes(): Promise<number> {
  for (let turn = 0; turn < 5; turn++) {
    collectGarbage()
    await nextTurn()
  }
  return process.memoryUsage().arrayBuffers
}

test('requests that wait for the turn of their caller are charged', async () => {
  const caller = { pid: 1, uid: 1, gid: 1 }
  const limits = { perCaller: { requestsPerSecond: 10 } }
  await using running = await startServer({ limits }, { readPeerCredentials: () => caller })
  using peer = new RawPeer(running.path)
  const streams = Array.from({ length: STREAMS }, () => peer.open())
  while ((running.server.sockets()[0]?.streams ?? 0) < STREAMS) await nextTurn()
  await peer.pinged()
  const before = charged(running)
  const request = requestFrame({ resourceNames: [WEB], node: peerNode('waiting') })
  const frame = Buffer.concat(Array<Buffer>(Math.floor(FRAME_BYTES / request.length)).fill(request))
  for (const { http } of streams) http.write(frame)
  await peer.pinged()
  for (let turn = 0; turn < 100; turn++) await nextTurn()
  const kept = charged(running) - before
  assert.ok(kept > (STREAMS - 10) * frame.length, `${kept} bytes are charged for ${STREAMS * frame.length}`)
})

test('a request behind a response that is not read keeps no memory of Node beside it', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path, { initialWindowSize: 0 })
  await peer.pinged()
  const first = requestFrame({ node: peerNode('stuck'), resourceNames: [WEB] })
  const second = requestFrame({ resourceNames: [WEB] })
  const streams = Array.from({ length: STREAMS }, () => peer.request(`${SDS}/StreamSecrets`))
  for (const stream of streams) stream.on('error', () => {}).write(first)
  await peer.pinged()
  const before = await bufferBytes()
  for (const stream of streams) {
    // Held behind the response, and kept behind that.
    for (const request of [second, second]) {
      stream.write(request)
      await peer.pinged()
    }
    // The rest of a slab of Node's pool: what is copied into it next time is in another one.
    Buffer.allocUnsafe(31_000)
    Buffer.allocUnsafe(31_000)
  }
  const grown = (await bufferBytes()) - before
  assert.ok(grown < MOST_BESIDE, `${grown} bytes are kept for ${2 * STREAMS * second.length}`)
})

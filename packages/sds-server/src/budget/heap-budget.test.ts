/** A heap with a limit, as in a container: thousands of streams fit into it, and after a kill the next process serves. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { Attacked } from '../../test/attacked-process.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { WEB } from '../../test/running-server.ts'

const CONNECTIONS = 50
const STREAMS_EACH = 100
/** V8 ends a process that needs more. */
const HEAP_LIMIT = '--max-old-space-size=64'

/** Each stream asks, is answered and acknowledges; all stay open until they are disposed. */
async function holdStreams(path: string): Promise<Disposable> {
  const peers = new DisposableStack()
  for (let connection = 0; connection < CONNECTIONS; connection++) {
    const peer = peers.use(new RawPeer(path))
    const streams = Array.from({ length: STREAMS_EACH }, () => peer.open())
    for (const stream of streams) stream.ask(WEB)
    for (const stream of streams) {
      const response = await stream.next()
      assert.equal(response.resources.length, 1)
      stream.ack(response, WEB)
    }
    await peer.pinged()
  }
  return peers
}

test('5,000 streams are served with a heap of 64 MB, and after SIGKILL the next process takes the socket and serves them', async t => {
  const directory = temporaryFolder(t)
  for (const life of ['first', 'second']) {
    await using server = await Attacked.start(directory, {}, [HEAP_LIMIT])
    using _streams = await Promise.race([holdStreams(server.path), server.ended()])
    assert.equal((await server.report()).streams, CONNECTIONS * STREAMS_EACH, life)
    // It ends by SIGKILL, and leaves its socket behind.
    await server[Symbol.asyncDispose]()
    assert.ok(existsSync(server.path))
  }
})

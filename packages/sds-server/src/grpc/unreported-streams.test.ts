import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http2'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { listening, temporaryFolder } from '@livery/test-support'
import { FLOODS } from '../../test/floods.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { learnFrom, onUnreportedStreams } from './unreported-streams.ts'

const BYTES = 131_072

test('a stream with too many header fields is heard of while it is read, and one that is reported is not', async t => {
  const path = join(temporaryFolder(t), 'a.sock')
  const server = await listening(createServer({ maxHeaderListPairs: 32 }), path)
  t.after(() => server.close())
  let reported = 0
  server.on('stream', stream => {
    reported++
    learnFrom(stream)
    stream.respond({}, { endStream: true })
  })
  server.on('session', session => session.on('error', () => {}))
  let isHeard = false
  using _ = onUnreportedStreams(() => {
    isHeard = true
  })
  {
    using peer = new RawPeer(path)
    const stream = peer.request('/')
    await once(stream.resume(), 'close')
  }
  assert.deepEqual([reported, isHeard], [1, false])
  for (const { name, connection } of FLOODS.filter(({ name }) => /^(?:indexed|many|long) header fields/.test(name)))
    await t.test(name, async () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      using _ = onUnreportedStreams(resolve)
      const socket = connect(path, () => socket.write(connection(BYTES)))
      socket.on('error', () => {}).resume()
      await promise
      socket.destroy()
    })
  assert.equal(reported, 1)
})

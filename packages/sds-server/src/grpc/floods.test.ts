/** Every kind of frame, on many connections at once: what a caller sends in one write costs others no turn of the event loop. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { Attacked } from '../../test/attacked-process.ts'
import { FLOODS } from '../../test/floods.ts'
import { RawPeer } from '../../test/raw-peer.ts'

const MIB = 1024 ** 2
const CONNECTIONS = 24
const BYTES_OF_EACH = 131_072
/** CPU time: five times the most that was measured, and less than half of what the first forms took without slices. */
const LONGEST_TURN_MS = 1_000
const MOST_GROWTH = 150 * MIB
const VICTIM = 1_000
const ANSWERS = 20

async function connected(path: string): Promise<Socket> {
  const socket = connect(path)
  socket.on('error', () => {}).resume()
  await once(socket, 'connect')
  return socket
}

/** Everything was taken, or the server hung up. */
function sent(socket: Socket, bytes: Buffer): Promise<void> {
  return new Promise(resolve => {
    socket.once('close', () => resolve())
    socket.write(bytes, () => resolve())
  })
}

const skip = existsSync('/proc/self/clear_refs') ? false : 'needs /proc, to read how much memory a process has had'

test('floods', { skip, timeout: 240_000 }, async t => {
  const directory = temporaryFolder(t)
  await using server = await Attacked.start(directory, {})
  await server.order({ uid: VICTIM })
  using victim = new RawPeer(server.path)
  const stream = victim.open()
  stream.ask('ROOTCA')
  await stream.next()
  let uid = VICTIM
  for (const { name, connection } of FLOODS) {
    await t.test(`${name}: no turn takes long, memory stays, and another caller is answered`, async () => {
      await server.order({ uid: ++uid })
      const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, () => connected(server.path)))
      const before = await server.report()
      const bytes = connection(BYTES_OF_EACH)
      const flooded = sockets.map(socket => sent(socket, bytes))
      for (let answer = 0; answer < ANSWERS; answer++) {
        stream.ask('ROOTCA')
        await stream.next()
      }
      await Promise.all(flooded)
      const { highest, longestTurnMs } = await server.report()
      for (const socket of sockets) socket.destroy()
      const growth = highest - before.rss
      t.diagnostic(`${name}: ${longestTurnMs.toFixed(0)} ms, ${(growth / MIB).toFixed(1)} MiB`)
      assert.ok(longestTurnMs < LONGEST_TURN_MS, `a turn took ${longestTurnMs.toFixed(0)} ms`)
      assert.ok(growth < MOST_GROWTH, `the process grew by ${(growth / MIB).toFixed(1)} MiB`)
    })
  }
})

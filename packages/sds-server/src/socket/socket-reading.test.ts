import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { listening, temporaryFolder } from '@livery/test-support'
import { startReading, stopReading } from './socket-reading.ts'

const TURNS = 20

test('bytes wait while a socket is not read, and for ever once it is destroyed, also before its end', async t => {
  const path = join(temporaryFolder(t), 'a.sock')
  const server = await listening(createServer(), path)
  const client = connect(path)
  client.on('error', () => {})
  const [socket]: Socket[] = await once(server, 'connection')
  assert.ok(socket)
  socket.resume()
  stopReading(socket)
  const sent = Promise.withResolvers<void>()
  client.write('a', () => sent.resolve())
  await sent.promise
  for (let turn = 0; turn < TURNS; turn++) await setImmediate()
  assert.equal(socket.bytesRead, 0)
  startReading(socket)
  while (socket.bytesRead === 0) await setImmediate()
  stopReading(socket)
  const end = socket._destroy.bind(socket)
  const held = Promise.withResolvers<() => void>()
  socket._destroy = (error, done) => held.resolve(() => end(error, done))
  socket.destroy()
  client.write('b')
  startReading(socket)
  for (let turn = 0; turn < TURNS; turn++) await setImmediate()
  assert.equal(socket.bytesRead, 1)
  const finish = await held.promise
  finish()
  client.destroy()
  server.close()
  await once(server, 'close')
})

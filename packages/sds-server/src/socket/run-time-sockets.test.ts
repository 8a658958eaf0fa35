/** Sockets that are opened and removed while the server runs. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdir, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { FakeClock } from '@livery/core/testing'
import { listening } from '@livery/test-support'
import { MemorySource } from '../../test/memory-source.ts'
import { noSecondUser, readPeerCredentials, startPython } from '../../test/processes.ts'
import { API, isListening, startServer, WEB } from '../../test/running-server.ts'
import { namesOf, SdsClient } from '../../test/sds-client.ts'
import { SdsServerError } from './sds-server-error.ts'

const UNAVAILABLE = 14

function besides(path: string, name: string): string {
  return join(dirname(path), name)
}

test('a socket that is opened later serves what it allows, and the others continue', async () => {
  await using running = await startServer()
  const stream = running.connect().sotw()
  stream.ask(WEB)
  await stream.next()
  const path = besides(running.path, 'api.sock')
  await running.server.listen({ path, identity: API, mode: 0o600 })
  assert.equal((await stat(path)).mode & 0o777, 0o600)
  assert.deepEqual(
    running.server.sockets().map(socket => [socket.path, socket.state]),
    [
      [running.path, 'listening'],
      [path, 'listening'],
    ],
  )
  using client = new SdsClient(path)
  assert.deepEqual(namesOf(await client.fetch({ resourceNames: ['default', WEB] })), ['default'])
  stream.ask(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

for (const [what, config, code] of [
  ['a path that is listened on', {}, 'invalid-config'],
  ['an invalid pattern', { path: 'b.sock', allow: ['*'] }, 'invalid-config'],
  ['a path that is too long', { path: 'x'.repeat(120) }, 'path-too-long'],
  ['a path where something else than a socket is', { path: 'file' }, 'not-a-socket'],
] as const) {
  test(`${what} is refused, and nothing has changed`, async () => {
    await using running = await startServer()
    await writeFile(besides(running.path, 'file'), '')
    const before = [running.server.sockets(), await readdir(dirname(running.path))]
    const path = 'path' in config ? besides(running.path, config.path) : running.path
    await assert.rejects(running.server.listen({ ...config, path }), error => {
      assert.ok(error instanceof SdsServerError && error.code === code)
      return true
    })
    assert.deepEqual([running.server.sockets(), await readdir(dirname(running.path))], before)
    assert.ok(isListening(running.server, running.path))
  })
}

/** Moves the clock, attempt by attempt, until `event` has come: the kernel decides how many turns an attempt takes. */
async function advanceUntil(clock: FakeClock, event: Promise<unknown>): Promise<void> {
  let hasCome = false
  void event.then(() => {
    hasCome = true
  })
  while (!hasCome) await clock.advance(5_000)
}

test('a socket on whose path another process listens waits for it, and the others are served', async () => {
  await using running = await startServer()
  const { server, source } = running
  const [path, free] = [besides(running.path, 'taken.sock'), besides(running.path, 'free.sock')]
  const other = await listening(createServer(), path)
  const [failure, ...more] = await server.listenAll([
    { path, identity: WEB },
    { path: free, identity: API },
  ])
  assert.deepEqual(more, [])
  assert.match(String(failure), /another program.* serves this socket\. Stop it, or choose another path/)
  const [, taken] = server.sockets()
  assert.deepEqual([taken?.state, taken?.reason], ['waiting', failure?.message])
  using client = new SdsClient(free)
  assert.deepEqual(namesOf(await client.fetch({ resourceNames: ['default'] })), ['default'])

  const probed = once(other, 'connection')
  await source.clock.advance(5_000)
  await probed
  other.close()
  await once(other, 'close')
  await advanceUntil(
    source.clock,
    running.event('socket-acquired', event => event.path === path),
  )
  assert.equal(server.sockets()[1]?.state, 'listening')
  using late = new SdsClient(path)
  assert.deepEqual(namesOf(await late.fetch({ resourceNames: ['default', API] })), ['default'])
  assert.equal(running.events.filter(({ kind }) => kind === 'socket-waiting').length, 1)
})

test('a server that has handed over waits where its successor listens, until it takes everything back', async () => {
  await using running = await startServer({}, { takeover: true })
  const { server } = running
  const [path, later] = [besides(running.path, 'pod.sock'), besides(running.path, 'later.sock')]
  const successor = await Promise.all([path, later].map(each => listening(createServer(), each)))
  server.endTakeover()
  await server.listen({ path, identity: WEB })
  assert.equal(server.sockets()[1]?.state, 'waiting')
  assert.ok(running.events.some(event => event.kind === 'socket-waiting' && event.isHandover))

  await server.reclaim()
  await server.listen({ path: later, identity: API })
  assert.deepEqual(
    server.sockets().map(({ state }) => state),
    ['listening', 'listening', 'listening'],
  )
  using client = new SdsClient(path)
  assert.deepEqual(namesOf(await client.fetch({ resourceNames: ['default'] })), ['default'])
  for (const each of successor) each.close()
})

test('a server that has handed over its sockets opens them again, with the rules of by then and its old peers still there', async () => {
  await using running = await startServer({}, { drainMs: 3_000 })
  const { server, source } = running
  const stream = running.connect().sotw()
  stream.ask(WEB)
  await stream.next()
  const [own, gone] = [besides(running.path, 'own.sock'), besides(running.path, 'gone.sock')]
  await server.listenAll([
    { path: own, allow: [WEB] },
    { path: gone, identity: API },
  ])
  server.endTakeover()
  const drained = server.handOver()
  server.prepareAccess([{ path: own, allow: [API] }])()
  await server.stopListening(gone)

  await server.reclaim()
  assert.deepEqual(
    server.sockets().flatMap(({ path, state }) => (state === 'listening' ? path : [])),
    [running.path, own],
  )
  using client = new SdsClient(own)
  assert.deepEqual(namesOf(await client.fetch({ resourceNames: [WEB, API] })), [API])
  stream.ask(API)
  assert.deepEqual(namesOf(await stream.next()), [API])
  await source.clock.waitForDeadline(time => time === source.clock.now() + 3_000)
  await source.clock.advance(3_000)
  await stream.status
  await drained
})

/** It makes the socket as root, and is somebody else from then on. */
const STRANGER = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.setuid(65534)
s.listen(5)
print("listening", flush=True)
while True: s.accept()
`

test('a stranger who listens on a new socket while a server hands over is not called its successor', {
  skip: noSecondUser,
}, async () => {
  await using running = await startServer({}, { takeover: true, readPeerCredentials })
  const { server } = running
  const path = besides(running.path, 'pod.sock')
  const stranger = await startPython(STRANGER, [path])
  server.endTakeover()
  await server.listen({ path, identity: WEB })
  stranger.stop()
  const waiting = running.events.find(event => event.kind === 'socket-waiting')
  assert.ok(waiting?.kind === 'socket-waiting')
  assert.equal(waiting.isHandover, undefined)
  assert.match(waiting.error.message, /uid 65534/)
})

test('a socket that waits is stopped without a trace, and follows new rules while it waits', async () => {
  await using running = await startServer()
  const { server, source } = running
  const path = besides(running.path, 'taken.sock')
  const other = await listening(createServer(), path)
  const shared = { path, allow: [WEB] }
  await server.listen(shared)
  server.prepareAccess([{ path, allow: [API] }])()
  await server.stopListening(path)
  assert.deepEqual(
    server.sockets().map(socket => socket.path),
    [running.path],
  )
  await server.listen(shared)
  server.prepareAccess([{ path, allow: [API] }])()
  other.close()
  await once(other, 'close')
  await advanceUntil(source.clock, running.event('socket-acquired'))
  using client = new SdsClient(path)
  assert.deepEqual(namesOf(await client.fetch({ resourceNames: [WEB, API] })), [API])
})

test('of several sockets that are opened together all appear, or none', async () => {
  await using running = await startServer()
  const good = { path: besides(running.path, 'good.sock') }
  const tooLong = { path: besides(running.path, 'x'.repeat(120)) }
  await assert.rejects(running.server.listenAll([good, tooLong]), { code: 'path-too-long' })
  assert.deepEqual(await readdir(dirname(running.path)), ['sds.sock'])
  await running.server.listenAll([good, { path: besides(running.path, 'fine.sock') }])
  assert.deepEqual((await readdir(dirname(running.path))).sort(), ['fine.sock', 'good.sock', 'sds.sock'])
})

test('a socket that is removed is gone at once, drains, and leaves the others alone', async () => {
  await using running = await startServer({}, { drainMs: 3_000 })
  const { server, source, path } = running
  const config = { path: besides(path, 'api.sock'), identity: API }
  await server.listen(config)
  using client = new SdsClient(config.path)
  const [leaving, staying] = [client.sotw(), running.connect().sotw()]
  for (const stream of [leaving, staying]) {
    stream.ask('default', 'ROOTCA')
    await stream.next()
  }
  const stopped = server.stopListening(config.path)
  await source.clock.waitForDeadline(time => time === source.clock.now() + 3_000)
  await assert.rejects(stat(config.path), { code: 'ENOENT' })
  assert.ok(isListening(server, path))
  assert.equal([...server.streams()].length, 2)
  await source.issue(API)
  assert.deepEqual(namesOf(await leaving.next()), ['default'])
  await source.clock.advance(3_000)
  assert.equal((await leaving.status).code, UNAVAILABLE)
  await stopped
  assert.deepEqual(
    server.sockets().map(socket => socket.path),
    [path],
  )
  staying.ask('ROOTCA')
  assert.deepEqual(namesOf(await staying.next()), ['ROOTCA'])
})

for (const identity of [undefined, API]) {
  const which = identity === undefined ? 'a shared socket' : 'the socket of one identity'
  test(`streams of ${which} that is removed get nothing that is added afterwards, and what they have is renewed`, async () => {
    const source = await MemorySource.create(WEB)
    await using running = await startServer(identity ? { identity } : {}, { source, drainMs: 3_000 })
    const { server, path } = running
    const stream = running.connect().sotw()
    stream.ask(API, 'ROOTCA')
    assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
    const stopped = server.stopListening(path)
    await source.issue(API)
    source.setBundle(undefined, { padding: 1 })
    assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
    await source.clock.waitForDeadline(time => time === source.clock.now() + 3_000)
    await source.clock.advance(3_000)
    await stopped
    assert.equal((await stream.status).code, UNAVAILABLE)
    assert.equal(stream.queued, 0)
  })
}

test('a peer that asks a removed socket for more gets none of it', async () => {
  await using running = await startServer({}, { drainMs: 3_000 })
  const { server, source, path } = running
  const [stream, delta] = [running.connect().sotw(), running.connect().delta()]
  stream.ask(WEB)
  delta.subscribe(WEB)
  await Promise.all([stream.next(), delta.next()])
  void server.stopListening(path)
  stream.ask(WEB, API)
  delta.subscribe(API)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
  assert.deepEqual((await delta.next()).removedResources, [API])
  // Withdrawing it notifies the streams, which may ask for it again.
  source.set(WEB, undefined)
  assert.deepEqual((await delta.next()).removedResources, [WEB])
})

test('a name without an identity means the first one that is added, after a review', async () => {
  const source = await MemorySource.create()
  await using running = await startServer({}, { source })
  const stream = running.connect().sotw()
  stream.ask('default')
  assert.deepEqual(namesOf(await stream.next()), [])
  await source.issue(API)
  running.server.review()
  assert.deepEqual(namesOf(await stream.next()), ['default'])
})

test('a path may be listened on again while its streams of before drain', async () => {
  await using running = await startServer({}, { drainMs: 3_000 })
  const { server, source, path } = running
  const before = running.connect().sotw()
  before.ask(WEB)
  await before.next()
  const stopped = server.stopListening(path)
  await server.listen({ path, identity: API })
  using client = new SdsClient(path)
  assert.deepEqual(namesOf(await client.fetch({ resourceNames: ['default', WEB] })), ['default'])
  await source.clock.waitForDeadline(time => time === source.clock.now() + 3_000)
  await source.clock.advance(3_000)
  await before.status
  await stopped
  assert.deepEqual(namesOf(await client.fetch({ resourceNames: ['default'] })), ['default'])
})

test('stopping a path that nobody listens on does nothing', async () => {
  await using running = await startServer()
  await running.server.stopListening('/nowhere.sock')
  assert.ok(isListening(running.server, running.path))
})

test('stopping or closing while a socket binds leaves nothing of it', async () => {
  await using running = await startServer()
  const { server, path } = running
  const stopped = server.listen({ path: besides(path, 'stopped.sock') })
  const refused = assert.rejects(stopped, { name: 'SdsServerError', code: 'closed' })
  await server.stopListening(besides(path, 'stopped.sock'))
  await refused
  const late = assert.rejects(server.listen({ path: besides(path, 'late.sock') }), { code: 'closed' })
  await server.close()
  await late
  assert.deepEqual(await readdir(dirname(path)), [])
  await assert.rejects(server.listen({ path }), { code: 'closed', message: /is closing/ })
})

test('a signal gives up binding', async () => {
  const source = await MemorySource.create()
  await using running = await startServer({}, { source })
  const gone = besides(running.path, 'late.sock')
  await assert.rejects(running.server.listen({ path: gone }, AbortSignal.abort(new Error('never mind'))), /never mind/)
  assert.deepEqual(await readdir(dirname(running.path)), ['sds.sock'])
})

/** The server as a whole: configuration, callers, drain, takeover. */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readdir, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { Events, SecretManager } from '@livery/core'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { MemorySource } from '../test/memory-source.ts'
import { noPython, noSecondUser, readPeerCredentials, runPython } from '../test/processes.ts'
import { API, isListening, startServer, WEB } from '../test/running-server.ts'
import { namesOf, SdsClient } from '../test/sds-client.ts'
import type { SdsEvent } from './events/sds-event.ts'
import { createSdsServer } from './sds-server.ts'
import type { SocketConfig } from './sds-socket.ts'
import { SdsServerError } from './socket/sds-server-error.ts'

const UNAVAILABLE = 14

test('several sockets serve what each of them allows', async t => {
  const directory = temporaryFolder(t)
  const source = await MemorySource.create(WEB, API)
  const [web, api] = [join(directory, 'web.sock'), join(directory, 'api.sock')]
  const sockets = [
    { path: web, identity: WEB },
    { path: api, identity: API },
  ]
  await using server = await createSdsServer({ sockets, source, clock: source.clock, drainMs: 0 })
  assert.ok(isListening(server, web) && isListening(server, api))
  for (const [path, own, other] of [
    [web, WEB, API],
    [api, API, WEB],
  ] as const) {
    using client = new SdsClient(path)
    assert.deepEqual(namesOf(await client.fetch({ resourceNames: [own, other, 'default'] })), ['default', own])
  }
})

for (const [what, config, message] of [
  ['an invalid pattern', { allow: ['*'] }, /"\*" in allow/],
  ['a limit of zero', { limits: { streams: 0 } }, /limits\.streams 0 on .*sds\.sock/],
  ['a limit that is not a whole number', { limits: { names: 1.5 } }, /limits\.names 1\.5/],
  [
    'callers without a way to read their credentials',
    { callers: [{ uid: 1 }] },
    /callers on .*sds\.sock.*native addon/,
  ],
] as const) {
  test(`${what} is refused before anything is on the disk`, async t => {
    const directory = temporaryFolder(t)
    const source = await MemorySource.create()
    const sockets: SocketConfig[] = [{ path: join(directory, 'sds.sock'), ...config }]
    await assert.rejects(createSdsServer({ sockets, source, clock: source.clock }), error => {
      assert.ok(error instanceof SdsServerError && error.code === 'invalid-config')
      assert.match(error.message, message)
      return true
    })
    assert.deepEqual(await readdir(directory), [])
  })
}

test('one path for two sockets, or one name for two meanings, is refused', async () => {
  const source = await MemorySource.create()
  const options = { source, clock: source.clock }
  const twice = [{ path: 'a.sock' }, { path: 'a.sock' }]
  await assert.rejects(createSdsServer({ ...options, sockets: twice }), { code: 'invalid-config', message: /a\.sock/ })
  const names = { default: 'x', root: 'x' }
  await assert.rejects(createSdsServer({ ...options, sockets: [], names }), { code: 'invalid-config', message: /"x"/ })
  for (const [name, files, message] of [
    ['sds://x', 'file-cert:/a', /"sds:\/\/x" for files: "file-cert:\/a" is not file-cert:CHAIN~KEY/],
    ['ROOTCA', 'file-root:/a', /"ROOTCA" for files: it has another meaning/],
    [WEB, 'file-root:/a', /it has another meaning/],
  ] as const)
    await assert.rejects(createSdsServer({ ...options, sockets: [], fileNames: { [name]: files } }), {
      code: 'invalid-config',
      message,
    })
})

test('if one socket cannot be opened, none is left', async t => {
  const directory = temporaryFolder(t)
  const source = await MemorySource.create()
  const sockets = [{ path: join(directory, 'good.sock') }, { path: join(directory, 'x'.repeat(120)) }]
  await assert.rejects(createSdsServer({ sockets, source, clock: source.clock }), { code: 'path-too-long' })
  assert.deepEqual(await readdir(directory), [])
})

test("core's SecretManager is a source: an identity is issued on demand, renewed, and recorded", async t => {
  const directory = temporaryFolder(t)
  const clock = new FakeClock()
  await using ca = await TestCA.create(clock)
  await using manager = new SecretManager({
    ca,
    clock,
    keyGenerator: new TestKeyGenerator(),
    trustDomain: 'cluster.local',
  })
  const path = join(directory, 'sds.sock')
  const sockets = [{ path, allow: ['spiffe://cluster.local/**'], onDemand: true }]
  const kinds = new Set<string>()
  manager.events.subscribe(({ event }) => void kinds.add(event.kind))
  const events = new Events<SdsEvent>()
  events.subscribe(event => void (event.kind === 'stream-report' && kinds.add(event.report.kind)))
  await using server = await createSdsServer({ sockets, source: manager, clock, drainMs: 0, events })
  using client = new SdsClient(path)
  const stream = client.sotw()
  stream.ask(WEB, 'ROOTCA')
  const names = new Set<string>()
  let version = ''
  while (!names.has(WEB) || !names.has('ROOTCA')) {
    const response = await stream.next()
    for (const name of namesOf(response)) names.add(name)
    version = response.versionInfo
    stream.ack(response, WEB, 'ROOTCA')
  }
  const renewAt = manager.entries()[0]?.renewAt ?? 0
  await clock.advance(renewAt - clock.now())
  const renewed = await stream.next()
  assert.deepEqual(namesOf(renewed), [WEB])
  assert.notEqual(renewed.versionInfo, version)
  stream.ack(renewed, WEB, 'ROOTCA')
  await client.settled()
  for (const kind of ['asked', 'csr-sent', 'issued', 'pushed', 'acked']) assert.ok(kinds.has(kind), kind)
  stream.end()
  await stream.status
  const closed = server.close()
  while (!(await Promise.race([closed.then(() => true), clock.advance(1_000).then(() => false)])));
})

test('a live owner is named by its process', { skip: noPython }, async () => {
  await using running = await startServer()
  const { source, path } = running
  const starting = createSdsServer({ sockets: [{ path }], source, clock: source.clock, readPeerCredentials })
  await assert.rejects(starting, {
    code: 'live-owner',
    message: new RegExp(`another program \\(pid ${process.pid}, uid \\d+\\)`),
  })
  assert.deepEqual(namesOf(await running.connect().fetch({ resourceNames: [WEB] })), [WEB])
})

test('a caller is known by the kernel, gets what its rule allows, and is named in what is reported', {
  skip: noPython,
}, async () => {
  const uid = process.getuid?.() ?? 0
  await using running = await startServer({ callers: [{ uid, allow: [WEB] }] }, { readPeerCredentials })
  const stream = running.connect().sotw()
  stream.ask(WEB, API)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
  const { connection } = await running.event('connection-opened')
  assert.deepEqual(connection.caller, { pid: process.pid, uid, gid: process.getgid?.() ?? 0 })
  const { peer } = await running.event('stream-report', ({ report }) => report.kind === 'asked')
  assert.equal(peer, `node "test-node" (pid ${process.pid}, uid ${uid}) on ${running.path}`)
})

test('a caller whose credentials cannot be read is refused where they matter, and served where they do not', async () => {
  const failing = () => {
    throw Object.assign(new Error('gone'), { code: 'EBADF' })
  }
  await using strict = await startServer({ callers: [{ uid: 0 }] }, { readPeerCredentials: failing })
  const socket = connect(strict.path)
  await once(socket, 'close')
  assert.equal((await strict.event('connection-refused')).reason, 'unreadable-credentials')
  await using open = await startServer({}, { readPeerCredentials: failing })
  assert.deepEqual(namesOf(await open.connect().fetch({ resourceNames: [WEB] })), [WEB])
})

const CONNECT = `
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try:
    s.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    print(len(s.recv(100)))
except ConnectionError:
    print(0)
`

test('another user is closed without a byte of HTTP/2, and does not disturb others', {
  skip: noSecondUser,
}, async () => {
  await using running = await startServer({ mode: 0o666, callers: [{ uid: 0 }] }, { readPeerCredentials })
  await chmod(dirname(running.path), 0o755)
  assert.equal(await runPython(CONNECT, [running.path], { asNobody: true }), '0')
  const { reason, connection } = await running.event('connection-refused')
  assert.equal(reason, 'not-allowed')
  assert.equal(connection.caller?.uid, 65_534)
  assert.notEqual(await runPython(CONNECT, [running.path]), '0')
  assert.deepEqual(namesOf(await running.connect().fetch({ resourceNames: [WEB] })), [WEB])
})

test('closing waits for streams as long as the drain, and ends the rest with UNAVAILABLE', async () => {
  await using running = await startServer({}, { drainMs: 3_000 })
  const { clock } = running.source
  const [leaving, staying] = [running.connect().sotw(), running.connect().sotw()]
  for (const stream of [leaving, staying]) {
    stream.ask(WEB)
    await stream.next()
  }
  const idle = running.connect()
  await idle.health()
  const closed = running.server.close()
  assert.equal(running.server.close(), closed)
  await clock.waitForDeadline(time => time === clock.now() + 3_000)
  await assert.rejects(stat(running.path), { code: 'ENOENT' })
  assert.equal(isListening(running.server, running.path), false)
  await running.source.issue(WEB)
  for (const stream of [leaving, staying]) assert.deepEqual(namesOf(await stream.next()), [WEB])
  leaving.end()
  assert.equal((await leaving.status).code, 0)
  await clock.advance(3_000)
  const { code, details } = await staying.status
  assert.equal(code, UNAVAILABLE)
  assert.match(details, /shutting down/)
  await closed
  assert.equal(running.source.subscribers, 0)
  assert.deepEqual(running.server.sockets(), [{ path: running.path, state: 'closed', connections: 0, streams: 0 }])
})

test('closing with nobody connected is done at once', async () => {
  await using running = await startServer({}, { drainMs: 60_000 })
  await running.server.close()
  assert.deepEqual(running.source.clock.deadlines(), [])
})

test('a connection that speaks no HTTP/2 does not hold up closing', async () => {
  await using running = await startServer()
  const socket = connect(running.path)
  await running.event('connection-opened')
  const closed = running.server.close()
  const gone = once(socket.resume(), 'close')
  while (!(await Promise.race([closed.then(() => true), running.source.clock.advance(1_000).then(() => false)])));
  await gone
})

test('a peer that does not read does not hold up closing', async () => {
  await using running = await startServer()
  const stream = running.connect().sotw()
  stream.ask('ROOTCA')
  await stream.next()
  stream.pause()
  for (let i = 0; i < 5; i++) running.source.setBundle('cluster.local', { version: `${i}`, padding: 1_000_000 })
  const closed = running.server.close()
  while (!(await Promise.race([closed.then(() => true), running.source.clock.advance(1_000).then(() => false)])));
  assert.equal(running.server.sockets()[0]?.connections, 0)
  await running.event('connection-closed')
})

test('a second process takes over without a gap: open streams continue, new ones go there', async () => {
  await using running = await startServer({}, { drainMs: 60_000 })
  const old = running.connect().sotw()
  old.ask(WEB)
  const first = await old.next()
  const successor = fork(new URL('../test/second-server.ts', import.meta.url), [running.path], {
    execArgv: ['--conditions=@livery/source'],
  })
  const [ready] = await once(successor, 'message')
  assert.equal(ready, 'listening')
  await running.source.clock.advance(5_000)
  await running.event('socket-superseded')
  assert.equal(isListening(running.server, running.path), false)

  await running.source.issue(WEB)
  assert.notEqual((await old.next()).versionInfo, first.versionInfo)
  const fresh = new SdsClient(running.path)
  const response = await fresh.fetch({ resourceNames: ['spiffe://cluster.local'] })
  assert.notDeepEqual(response.resources, (await running.connect().fetch({ resourceNames: ['ROOTCA'] })).resources)

  old.end()
  await running.server.close()
  assert.deepEqual(namesOf(await fresh.fetch({ resourceNames: [WEB] })), [WEB])
  fresh[Symbol.dispose]()
  successor.send('close')
  await once(successor, 'exit')
  await assert.rejects(stat(running.path), { code: 'ENOENT' })
})

test('a socket file that is deleted is made again within 10 s, and streams continue', async () => {
  await using running = await startServer()
  const stream = running.connect().sotw()
  stream.ask(WEB)
  await stream.next()
  await rm(running.path)
  await running.source.clock.advance(10_000)
  await running.event('socket-recreated')
  assert.ok(isListening(running.server, running.path))
  assert.deepEqual(namesOf(await running.connect().fetch({ resourceNames: [WEB] })), [WEB])
  await running.source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

test('a secret that cannot be encoded ends that stream only, and is reported as a bug', async () => {
  await using running = await startServer()
  const stream = running.connect().sotw()
  stream.ask(WEB)
  await stream.next()
  const item = await running.source.issue(API)
  Object.defineProperty(item, 'privateKey', {
    get: () => {
      throw new Error('a text that nobody checked')
    },
  })
  const broken = running.connect().sotw()
  broken.ask(API)
  const { code, details } = await broken.status
  assert.equal(code, 13)
  assert.match(details, /^internal error/)
  const { error } = await running.event('stream-failed')
  assert.match(String(error), /a text that nobody checked/)
  await running.source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

/** Sockets that identify their callers: who gets in, what `default` means to each, and what a change of the facts does. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import type { SpiffeId } from '@livery/core/plugin'
import { MemoryDirectory } from '../../test/memory-directory.ts'
import { API, OTHER, type RunningServer, startServer, WEB } from '../../test/running-server.ts'
import { namesOf, type SdsClient, secretsOf } from '../../test/sds-client.ts'
import type { RefusedConnection } from '../events/sds-event.ts'
import type { DiscoveryResponse } from '../gen/envoy/service/discovery/v3/discovery.ts'
import type { SocketConfig } from '../sds-socket.ts'

const UNAVAILABLE = 14
const PERMISSION_DENIED = 7
const RESOURCE_EXHAUSTED = 8

interface Bench {
  readonly running: RunningServer
  readonly directory: MemoryDirectory
  /** A client whose next connection is of this pid. */
  client(pid: number): SdsClient
  /** A connection without a byte of HTTP/2. */
  socket(pid: number): Promise<Socket>
}

/** Knows pid 1 as WEB and pid 2 as API, on a socket without `allow`. All callers have one uid. */
async function start(t: TestContext, socket: Partial<SocketConfig> = {}): Promise<Bench> {
  const directory = new MemoryDirectory()
  directory.set(1, WEB, 'ns:default', 'sa:web', 'label:app=shop')
  directory.set(2, API, 'ns:default', 'sa:api')
  const { readPeerCredentials } = directory
  const options = { callerDirectory: directory, readPeerCredentials, drainMs: 3_000 }
  const allow = socket.identity ? {} : { allow: [] }
  const running = await startServer({ ...allow, identify: true, ...socket }, options)
  t.after(() => running[Symbol.asyncDispose]())
  const client = (pid: number) => {
    directory.pid = pid
    return running.connect()
  }
  return {
    running,
    directory,
    client,
    async socket(pid) {
      directory.pid = pid
      const known = directory.identified
      const raw = connect(running.path)
      t.after(() => raw.destroy())
      await once(raw, 'connect')
      while (directory.identified === known) await new Promise(setImmediate)
      return raw
    },
  }
}

/** The identity in the certificate under a name. */
function identityIn(response: DiscoveryResponse, name = 'default'): string | undefined {
  const type = secretsOf(response).get(name)?.type
  const chain = type?.$case === 'tlsCertificate' ? type.value.certificateChain?.inlineBytes : undefined
  return chain && new X509Certificate(chain).subjectAltName?.replace('URI:', '')
}

async function defaultOf(client: SdsClient): Promise<string | undefined> {
  return identityIn(await client.fetch({ resourceNames: ['default'] }))
}

/** How many connections were refused for this reason. */
function refusals({ running }: Bench, wanted: RefusedConnection): number {
  return running.events.filter(event => event.kind === 'connection-refused' && event.reason === wanted).length
}

test('two callers of one uid on one socket: default is the own identity of each, and no other is given', async t => {
  const { running, client } = await start(t)
  const own: [number, SpiffeId, SpiffeId][] = [
    [1, WEB, API],
    [2, API, WEB],
  ]
  for (const [pid, mine, other] of own) {
    const response = await client(pid).fetch({ resourceNames: ['default', mine, other, 'ROOTCA'] })
    assert.deepEqual(namesOf(response), ['ROOTCA', 'default', mine])
    assert.deepEqual([identityIn(response), identityIn(response, mine)], [mine, mine])
    await running.event('stream-report', ({ report }) => report.kind === 'refused' && report.ledgerName === other)
  }
  const { connection } = await running.event('connection-opened')
  assert.equal(connection.subject, 'pod 1')
  const { peer } = await running.event('stream-report')
  assert.match(peer, /\(pid 1, uid 1337, pod 1\)/)
})

test('allow adds names for every caller, and default stays its own identity', async t => {
  const { client } = await start(t, { allow: ['spiffe://cluster.local/ns/default/sa/*'] })
  const response = await client(2).fetch({ resourceNames: ['default', WEB] })
  assert.deepEqual([identityIn(response), identityIn(response, WEB)], [API, WEB])
})

test('a caller without an own identity is refused default, and gets it when one is chosen', async t => {
  const { running, directory, client } = await start(t)
  directory.set(3, undefined, 'ns:other')
  const stream = client(3).sotw()
  stream.ask('default', 'ROOTCA')
  assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
  const { report } = await running.event('stream-report', ({ report }) => report.kind === 'refused')
  assert.match('reason' in report ? report.reason : '', /identified, and no identity was chosen/)
  directory.set(3, WEB, 'ns:other')
  assert.equal(identityIn(await stream.next()), WEB)
})

test('a caller that cannot be identified is refused with what was found, before any byte', async t => {
  const bench = await start(t)
  await once(await bench.socket(0), 'close')
  const { reason, detail } = await bench.running.event('connection-refused')
  assert.deepEqual([reason, detail], ['unidentified', 'process 0 is in no pod'])
  await once(await bench.socket(-1), 'close')
  const last = bench.running.events.findLast(event => event.kind === 'connection-refused')
  assert.deepEqual([last?.reason, last?.detail], ['unidentified', 'no such process'])
})

test('the server connects to its own path to check it, and reports no refused caller', async () => {
  let reads = 0
  const readPeerCredentials = () => {
    reads++
    return { pid: process.pid, uid: 0, gid: 0 }
  }
  await using running = await startServer({ callers: [{ uid: 1 }] }, { readPeerCredentials })
  await running.source.clock.advance(5_000)
  // Two connections are accepted, and of one the check reads who listens.
  while (reads < 3) await new Promise(setImmediate)
  assert.equal(running.events.filter(({ kind }) => kind === 'connection-refused').length, 0)
})

test('it is identified once per connection, whatever it asks', async t => {
  const { directory, client } = await start(t)
  const one = client(1)
  for (let i = 0; i < 3; i++) assert.equal(await defaultOf(one), WEB)
  assert.equal(directory.identified, 1)
})

test('a caller without facts waits, and is served when they arrive', async t => {
  const bench = await start(t)
  const { running, directory, client } = bench
  const late = defaultOf(client(7))
  while (directory.identified === 0) await new Promise(setImmediate)
  assert.equal(running.server.sockets()[0]?.connections, 0)
  directory.set(7, WEB)
  assert.equal(await late, WEB)
  assert.equal(refusals(bench, 'unknown-caller'), 0)
})

test('a wait ends after five seconds with a refusal', async t => {
  const bench = await start(t)
  const raw = await bench.socket(7)
  const closed = once(raw, 'close')
  await bench.running.source.clock.advance(4_900)
  assert.equal(refusals(bench, 'unknown-caller'), 0)
  await bench.running.source.clock.advance(200)
  await closed
  assert.ok(refusals(bench, 'unknown-caller') > 0)
})

test('a wait that ends gives its room back', async t => {
  // Two of them are for the server's own check of its path, which here has the pid of the caller.
  const bench = await start(t, { limits: { perCaller: { connections: 3 } } })
  for (let round = 0; round < 5; round++) {
    const raw = await bench.socket(7)
    while (!raw.closed) {
      await bench.running.source.clock.advance(1_000)
      await new Promise(setImmediate)
    }
  }
  assert.ok(refusals(bench, 'unknown-caller') >= 5)
  assert.equal(refusals(bench, 'too-many-of-caller'), 0)
})

test('of one subject at most sixteen connections wait, and others have their own room', async t => {
  const bench = await start(t)
  for (let i = 0; i < 16; i++) await bench.socket(7)
  assert.equal(refusals(bench, 'unknown-caller'), 0)
  await once(await bench.socket(7), 'close')
  assert.equal(refusals(bench, 'unknown-caller'), 1)
  await bench.socket(8)
  assert.equal(refusals(bench, 'unknown-caller'), 1)
})

test('connections that wait end with the server', async t => {
  const bench = await start(t)
  const raw = await bench.socket(7)
  const closed = once(raw, 'close')
  await bench.running.server.close()
  await closed
  bench.directory.set(7, WEB)
  assert.equal(bench.running.events.filter(({ kind }) => kind === 'connection-opened').length, 0)
})

test('a subject that ends loses its connections at once, and others notice nothing', async t => {
  const bench = await start(t)
  const { running, directory, client } = bench
  const ends = client(1).sotw()
  ends.ask('default')
  assert.equal(identityIn(await ends.next()), WEB)
  const other = client(2).sotw()
  other.ask('default')
  assert.equal(identityIn(await other.next()), API)
  directory.delete(1)
  assert.equal((await ends.status).code, UNAVAILABLE)
  await running.source.issue(API)
  assert.equal(identityIn(await other.next()), API)
  assert.equal(running.events.filter(({ kind }) => kind === 'connection-closed').length, 1)
})

test('a subject that ends loses its connections to a socket that drains, too', async t => {
  const bench = await start(t)
  const stream = bench.client(1).sotw()
  stream.ask('default')
  await stream.next()
  const stopped = bench.running.server.stopListening(bench.running.path)
  bench.directory.delete(1)
  assert.equal((await stream.status).code, UNAVAILABLE)
  await stopped
})

test('another identity for a subject cuts its connection; the next one means the new identity', async t => {
  const { directory, client } = await start(t)
  const one = client(1)
  const stream = one.sotw()
  stream.ask('default')
  assert.equal(identityIn(await stream.next()), WEB)
  directory.set(1, API)
  assert.equal((await stream.status).code, UNAVAILABLE)
  assert.equal(await defaultOf(one), API)
})

for (const [selectors, pids] of [
  [['ns:default'], [1, 2]],
  [['sa:web'], [1]],
  [['ns:default', 'label:app=shop'], [1]],
  [['ns:default', 'label:app=other'], []],
  [['ns:defaul'], []],
] as const)
  test(`callers with ${selectors.join(' and ')} are ${pids.length === 0 ? 'nobody' : `pid ${pids.join(', ')}`}`, async t => {
    const bench = await start(t, { callers: [{ selectors }] })
    for (const pid of [1, 2]) {
      const isIn = pids.some(each => each === pid)
      if (isIn) assert.equal(await defaultOf(bench.client(pid)), pid === 1 ? WEB : API)
      else await assert.rejects(defaultOf(bench.client(pid)), { code: UNAVAILABLE })
    }
    assert.equal(refusals(bench, 'not-allowed') > 0, pids.length < 2)
  })

test('a rule of selectors and uid needs both, and its allow adds names for that caller alone', async t => {
  const callers = [
    { uid: 1337, selectors: ['sa:web'], allow: [OTHER] },
    { uid: 1, selectors: ['sa:api'] },
  ]
  const { running, client } = await start(t, { callers })
  await running.source.issue(OTHER)
  assert.deepEqual(namesOf(await client(1).fetch({ resourceNames: ['default', OTHER] })), ['default', OTHER].sort())
  await assert.rejects(defaultOf(client(2)), { code: UNAVAILABLE })
})

test('a changed label takes effect on the open connection', async t => {
  const { directory, client } = await start(t, { callers: [{ selectors: ['label:app=shop'] }] })
  const stream = client(1).sotw()
  stream.ask('default')
  await stream.next()
  directory.set(1, WEB, 'label:app=other')
  assert.equal((await stream.status).code, UNAVAILABLE)
})

test('on the socket of one identity default is that identity, for the callers that its rules let in', async t => {
  const { client } = await start(t, { identity: API, callers: [{ selectors: ['sa:web'] }] })
  const response = await client(1).fetch({ resourceNames: ['default', WEB] })
  assert.deepEqual([namesOf(response), identityIn(response)], [['default'], API])
  await assert.rejects(defaultOf(client(2)), { code: PERMISSION_DENIED })
})

test('one of two callers of one uid cannot take the room of the other', async t => {
  const bench = await start(t, { limits: { perCaller: { streams: 3 } } })
  const greedy = bench.client(1)
  const held = Array.from({ length: 3 }, () => greedy.sotw())
  for (const stream of held) {
    stream.ask('default')
    await stream.next()
  }
  const refused = greedy.sotw()
  refused.ask('default')
  const { code, details } = await refused.status
  assert.equal(code, RESOURCE_EXHAUSTED)
  assert.match(details, /this caller \(pod 1\)/)
  assert.equal(await defaultOf(bench.client(2)), API)
})

test('what all callers of a socket hold stays under the limit of the socket', async t => {
  const bench = await start(t, { limits: { streams: 8 } })
  const opened = []
  for (let pid = 1; pid <= 20; pid++) {
    bench.directory.set(pid, WEB)
    const client = bench.client(pid)
    for (let i = 0; i < 8; i++) opened.push(client.sotw())
    for (const stream of opened.slice(-8)) stream.ask('default')
    await client.settled()
  }
  assert.ok((bench.running.server.sockets()[0]?.streams ?? 99) <= 8)
})

test('rules that begin to identify callers cut those that were not identified', async t => {
  const { running, client } = await start(t, { identify: false, allow: [WEB] })
  const one = client(1)
  const stream = one.sotw()
  stream.ask(WEB)
  await stream.next()
  running.server.prepareAccess([{ path: running.path, identify: true }])()
  assert.equal((await stream.status).code, UNAVAILABLE)
  assert.equal(await defaultOf(one), WEB)
})

test('rules that no longer identify callers let in those that wait', async t => {
  const { running, directory, client } = await start(t)
  const fetched = client(7).fetch({ resourceNames: [WEB] })
  while (directory.identified === 0) await new Promise(setImmediate)
  running.server.prepareAccess([{ path: running.path, allow: [WEB] }])()
  assert.deepEqual(namesOf(await fetched), [WEB])
})

for (const [what, socket, message] of [
  [
    'selectors where callers are not identified',
    { identify: false, callers: [{ selectors: ['ns:a'] }] },
    /ns:a.*set identify/,
  ],
  ['a rule without any field', { callers: [{ selectors: [] }] }, /no uid, gid or selector: it would let in everybody/],
] as const)
  test(`${what} is refused`, async t => {
    await assert.rejects(start(t, socket), { code: 'invalid-config', message })
  })

test('identify without a directory of callers is refused', async () => {
  await assert.rejects(startServer({ identify: true }), { code: 'invalid-config', message: /no directory of callers/ })
})

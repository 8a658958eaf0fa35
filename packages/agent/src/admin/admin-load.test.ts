import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { type IdentityEntry, SecretManager } from '@livery/core'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import { getRequest, openSocket, readAll } from '../../test/admin-socket.ts'
import { adminSource, failingEntry } from '../../test/admin-source.ts'
import type { HostPort } from '../schema/values.ts'
import { AdminServer } from './admin-server.ts'
import type { AdminSource } from './admin-source.ts'

/** 20,000 of them are a dump of 40 MB, far more than the kernel takes for a client that does not read. */
const IDENTITIES = 20_000
const MESSAGE = 'x'.repeat(2_000)

/** A listening endpoint over many identities that all fail with a long text; counts how many were looked at. */
class Bench implements AsyncDisposable {
  readonly clock = new FakeClock()
  readonly server: AdminServer<HostPort>
  looks = 0
  lists = 0
  searches = 0
  readonly #sockets: Socket[] = []

  private constructor(server: AdminServer<HostPort>, clock: FakeClock) {
    this.server = server
    this.clock = clock
  }

  static async create(identities = IDENTITIES, metrics = 'up 1\n'): Promise<Bench> {
    const clock = new FakeClock()
    const entries = Array.from({ length: identities }, (_, index) => failingEntry(index, MESSAGE))
    const byName = new Map<string, IdentityEntry>(entries.map(entry => [entry.identity, entry]))
    const keyGenerator = new TestKeyGenerator()
    const secrets = new SecretManager({
      ca: await TestCA.create(clock),
      clock,
      keyGenerator,
      trustDomain: 'cluster.local',
    })
    const source: AdminSource = {
      ...adminSource({ secrets, clock, keyGenerator }),
      config: () => ({}),
      sockets: () => [],
      identities: () => {
        bench.searches++
        return entries.map(({ identity }) => identity)
      },
      entries: () => {
        bench.lists++
        return entries
      },
      entry: name => {
        bench.looks++
        return byName.get(name)
      },
      metrics: { contentType: 'text/plain', text: () => Promise.resolve(metrics) },
    }
    const address = { host: '127.0.0.1', port: 0 }
    const onError = (error: unknown): void => assert.fail(String(error))
    const bench = new Bench(await AdminServer.listen({ routes: 'admin', address, source, onError }), clock)
    return bench
  }

  /** A connection that reads nothing until it is resumed. */
  async open(bytes = ''): Promise<Socket> {
    const socket = await openSocket(this.server.address)
    this.#sockets.push(socket)
    if (bytes !== '') socket.write(bytes)
    return socket
  }

  /** Asks on a new connection and reads the whole answer. */
  async ask(path: string): Promise<string> {
    return await readAll(await this.open(getRequest(path)))
  }

  /** Lets time pass until a connection is closed by the server. */
  async passTimeUntilClosed(socket: Socket): Promise<void> {
    socket.resume()
    while (!socket.closed) await this.clock.advance(1_000)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await this.server[Symbol.asyncDispose]()
  }
}

test('a dump is made as fast as it is read, and not at all for a client that has stopped reading', async () => {
  await using bench = await Bench.create()
  const deaf = await bench.open(getRequest('/config_dump'))
  await once(deaf, 'readable')
  while (bench.clock.deadlines().length > 0 && bench.looks < IDENTITIES && !deaf.closed) {
    await bench.clock.advance(1_000)
    if (bench.clock.now() - Date.UTC(2026, 0, 1) > 60_000) break
  }
  assert.ok(bench.looks < IDENTITIES, `${bench.looks} of ${IDENTITIES} were made for nobody`)
  await assert.rejects(readAll(deaf))
  const whole = await bench.ask('/config_dump')
  assert.ok(whole.length > IDENTITIES * MESSAGE.length)
})

test('a dump ends with its client, and the next one gets all of it', async () => {
  await using bench = await Bench.create()
  const leaver = await bench.open(getRequest('/config_dump'))
  await once(leaver, 'data')
  leaver.destroy()
  const whole = await bench.ask('/config_dump')
  assert.ok(whole.length > IDENTITIES * MESSAGE.length)
  assert.ok(bench.looks < 1.8 * IDENTITIES, `${bench.looks} looks`)
})

test('one dump is made at a time, sixteen wait, and others are sent away', async () => {
  await using bench = await Bench.create()
  const deaf: Socket[] = []
  for (let client = 0; client < 17; client++) {
    deaf.push(await bench.open(getRequest('/config_dump')))
    // Connections are accepted in the order of the answers.
    assert.match(await bench.ask('/healthz/live'), /200 OK/)
  }
  const seventeenth = await bench.ask('/config_dump')
  assert.match(seventeenth, /^HTTP\/1\.1 503 .*retry-after: 2/is)
  assert.ok(bench.lists <= 1, `${bench.lists} dumps were begun`)
})

test('of two requests in one segment the first is answered, and the second is not even parsed', async () => {
  await using bench = await Bench.create(1)
  const socket = await bench.open(getRequest('/healthz/live') + getRequest('/config_dump').repeat(1_000))
  const answer = await readAll(socket)
  assert.match(answer, /^HTTP\/1\.1 200 OK.*connection: close/is)
  assert.equal(answer.match(/HTTP\/1\.1/g)?.length, 1)
  assert.equal(bench.looks, 0)
})

test('a probe is answered while hundreds idle: the oldest of them is closed, the newest stay', async () => {
  await using bench = await Bench.create(1)
  const idle: Socket[] = []
  for (let client = 0; client < 400; client++) idle.push(await bench.open())
  for (let probe = 0; probe < 5; probe++) assert.match(await bench.ask('/healthz/live'), /200 OK/)
  const [first] = idle
  if (first && !first.closed) await once(first.resume(), 'close')
  const last = idle.at(-1) ?? assert.fail()
  last.write(getRequest('/healthz/live'))
  assert.match(await readAll(last), /200 OK/)
})

test('a head that comes a byte at a time is cut off after five seconds, however steadily it comes', async () => {
  await using bench = await Bench.create(1)
  const dribble = await bench.open('GET / HTTP/1.1\r\n')
  dribble.on('data', () => {})
  for (let second = 0; second < 5; second++) {
    dribble.write('x')
    assert.match(await bench.ask('/healthz/live'), /200 OK/)
    assert.equal(dribble.closed, false)
    await bench.clock.advance(1_000)
  }
  if (!dribble.closed) await once(dribble, 'close')
})

test('slow readers of large answers hold 16 MB in all: the first of them are cut for the next', async () => {
  await using bench = await Bench.create(1, 'x'.repeat(1024 * 1024))
  const deaf: Socket[] = []
  for (let client = 0; client < 24; client++) {
    const socket = await bench.open(getRequest('/metrics'))
    deaf.push(socket)
    let isAnswered = false
    socket.once('readable', () => {
      isAnswered = true
    })
    while (!isAnswered) await bench.clock.advance(50)
  }
  await assert.rejects(readAll(deaf[0] ?? assert.fail()), /ECONNRESET/)
  assert.match(await readAll(deaf.at(-1) ?? assert.fail()), /x{1000}/)
})

test('clients that ask together for readiness get what one look at all identities found', async () => {
  await using bench = await Bench.create(1_000)
  const answers = await Promise.all(Array.from({ length: 100 }, () => bench.ask('/healthz/ready')))
  for (const answer of answers) assert.match(answer, /503 Service Unavailable/)
  assert.ok(bench.lists < 50, `${bench.lists} looks for 100 answers`)
})

test('all identities are searched for a name that nobody has in a tenth of the time, however many ask', async () => {
  await using bench = await Bench.create()
  const path = '/explain?name=spiffe://cluster.local/ns/load/sa/sa-x'
  assert.match(await bench.ask(path), /Did you mean/)
  for (let request = 0; request < 100; request++) assert.match(await bench.ask(path), /404 Not/)
  assert.ok(bench.searches < 50, `${bench.searches} searches for 101 answers`)
})

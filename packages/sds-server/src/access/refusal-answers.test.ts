/** Callers that are not let in, on a socket that serves the Workload API: the status they get, and what they cannot take. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import type { PeerCredentials } from '@livery/core'
import { MemoryDirectory } from '../../test/memory-directory.ts'
import { BEGIN, END_HEADERS, FRAME, grpcHeaders, PREFACE, rawFrame } from '../../test/raw-http2.ts'
import { type RunningServer, startServer, WEB } from '../../test/running-server.ts'
import { WorkloadClient } from '../../test/workload-client.ts'

const STRANGER = 4_711
const CALL = rawFrame(FRAME.headers, END_HEADERS, 1, grpcHeaders('/SpiffeWorkloadAPI/FetchX509SVID'))

/** A server whose next connection is of the user `uid`. Only root is let in. */
class Bench implements AsyncDisposable {
  uid = STRANGER
  readonly #sockets: Socket[] = []
  readonly running: RunningServer

  private constructor(running: RunningServer) {
    this.running = running
  }

  static async start(workloadApi = true): Promise<Bench> {
    const credentials: PeerCredentials = { pid: 1, uid: STRANGER, gid: STRANGER }
    const readPeerCredentials = (): PeerCredentials => ({ ...credentials, uid: bench?.uid ?? STRANGER })
    let bench: Bench | undefined
    bench = new Bench(await startServer({ allow: [WEB], callers: [{ uid: 0 }], workloadApi }, { readPeerCredentials }))
    return bench
  }

  get refused(): number {
    return this.running.events.filter(({ kind }) => kind === 'connection-refused').length
  }

  /** A connection that was refused, and what it received by then. */
  async connect(bytes: Buffer = Buffer.alloc(0)): Promise<Attempt> {
    const before = this.refused
    const attempt = new Attempt(connect({ path: this.running.path, allowHalfOpen: true }))
    this.#sockets.push(attempt.socket)
    attempt.socket.write(bytes)
    while (this.refused === before) await nextTurn()
    return attempt
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await this.running[Symbol.asyncDispose]()
  }
}

class Attempt {
  readonly socket: Socket
  readonly ended: Promise<unknown>
  readonly isCut: Promise<void>
  received = Buffer.alloc(0)

  constructor(socket: Socket) {
    this.socket = socket
    // The server reads no more.
    this.isCut = new Promise<void>(resolve => socket.on('error', () => resolve()))
    this.ended = new Promise(resolve => {
      for (const event of ['end', 'close']) socket.on(event, resolve)
    })
    socket.on('data', chunk => {
      this.received = Buffer.concat([this.received, chunk])
    })
  }

  /** Whether it gets a first frame of the server, or is closed without. */
  async isAnswered(): Promise<boolean> {
    if (this.received.length === 0) await Promise.race([this.ended, once(this.socket, 'data').catch(() => {})])
    return this.received.length > 0
  }
}

test('a caller that no rule names gets PERMISSION_DENIED with the reason, by SDS too', async () => {
  await using bench = await Bench.start()
  using client = new WorkloadClient(bench.running.path)
  for (const stream of [client.svids(), client.bundles(), client.jwtBundles()]) {
    const { code, details } = await stream.status
    assert.equal(code, status.PERMISSION_DENIED)
    assert.match(details, /does not let in this caller: see its callers/)
  }
  const sds = bench.running.connect().sotw()
  sds.ask(WEB)
  assert.equal((await sds.status).code, status.PERMISSION_DENIED)
  assert.equal(bench.running.events.filter(({ kind }) => kind === 'connection-opened').length, 0)
  bench.uid = 0
  assert.equal((await client.svids().next()).svids[0]?.spiffeId, WEB)
})

test('a caller without facts, and one that cannot be identified, get it too', async () => {
  const directory = new MemoryDirectory()
  const { readPeerCredentials } = directory
  const options = { callerDirectory: directory, readPeerCredentials }
  await using running = await startServer({ allow: [], identify: true, workloadApi: true }, options)
  for (const pid of [0, 7]) {
    directory.pid = pid
    using client = new WorkloadClient(running.path)
    const before = directory.identified
    const { status: ended } = client.svids()
    while (directory.identified === before) await nextTurn()
    if (pid !== 0) await running.source.clock.advance(5_000)
    assert.equal((await ended).code, status.PERMISSION_DENIED)
  }
})

test('on a socket without the Workload API it is closed without a byte', async () => {
  await using bench = await Bench.start(false)
  const attempt = await bench.connect(Buffer.concat([BEGIN, CALL]))
  assert.equal(await attempt.isAnswered(), false)
})

test('a flood of one caller is answered in part and closed for the rest, and leaves answers for another', async () => {
  await using bench = await Bench.start()
  const attempts: Attempt[] = []
  for (let index = 0; index < 200; index++) attempts.push(await bench.connect())
  const answered = await Promise.all(attempts.map(attempt => attempt.isAnswered()))
  assert.equal(answered.filter(Boolean).length, 32)
  bench.uid = STRANGER + 1
  assert.equal(await (await bench.connect()).isAnswered(), true)
  await bench.running.source.clock.advance(2_000)
  await Promise.all(attempts.map(({ ended }) => ended))
  bench.uid = STRANGER
  assert.equal(await (await bench.connect()).isAnswered(), true)
})

test('a caller that comes again and again is answered at a rate', async () => {
  await using bench = await Bench.start()
  let answers = 0
  for (let index = 0; index < 100; index++) {
    const attempt = await bench.connect(Buffer.concat([BEGIN, CALL]))
    if (await attempt.isAnswered()) answers++
    attempt.socket.destroy()
    await attempt.ended
  }
  assert.ok(answers <= 50 && answers > 40, `${answers} answers`)
  await bench.running.source.clock.advance(1_000)
  assert.equal(await (await bench.connect()).isAnswered(), true)
})

const ENDLESS: readonly (readonly [what: string, bytes: Buffer])[] = [
  ['another protocol', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
  ['half a preface, and another', Buffer.concat([PREFACE.subarray(0, 10), PREFACE])],
  ['frames before a call', Buffer.concat([BEGIN, ...Array(100).fill(rawFrame(FRAME.ping, 0, 0, Buffer.alloc(8)))])],
  ['a frame without end', Buffer.concat([BEGIN, rawFrame(FRAME.data, 0, 1, Buffer.alloc(65_536))])],
]
for (const [what, bytes] of ENDLESS)
  test(`a caller that is not let in and sends ${what} is closed at once`, async () => {
    await using bench = await Bench.start()
    await (await bench.connect(bytes)).ended
  })

test('a caller that sends on behind its call, and never leaves, holds no answer', async () => {
  await using bench = await Bench.start()
  for (let index = 0; index < 40; index++) {
    const attempt = await bench.connect(Buffer.concat([BEGIN, CALL, Buffer.alloc(200_000)]))
    assert.equal(await attempt.isAnswered(), true)
    await attempt.isCut
  }
})

test('a call that arrives byte by byte is answered, once', async () => {
  await using bench = await Bench.start()
  const attempt = await bench.connect()
  for (const byte of Buffer.concat([BEGIN, CALL, CALL])) {
    if (!attempt.socket.writable) break
    await new Promise(resolve => attempt.socket.write(Buffer.from([byte]), resolve))
    await nextTurn()
  }
  await bench.running.source.clock.advance(2_000)
  await attempt.ended
  assert.equal(attempt.received.toString('latin1').split('grpc-status').length, 2)
})

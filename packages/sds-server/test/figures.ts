/**
 * Prints what serving costs: memory of an open stream, CPU of a response and of a push, how long the last stream waits for
 * a push, and how long the event loop is held up meanwhile. `npm run figures -w @livery/sds-server`
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import { SystemClock } from '@livery/core/plugin'
import { TemporaryFolder } from '@livery/test-support'
import { createSdsServer } from '../src/sds-server.ts'
import type { FiguresOrder, FiguresReport } from './figures-client.ts'
import { MemorySource } from './memory-source.ts'
import { WEB } from './running-server.ts'

const PUSHES = 7
const WARM_UP = 2

class Clients implements Disposable {
  readonly #child: ChildProcess = fork(new URL('figures-client.ts', import.meta.url), { execArgv: process.execArgv })

  async run(order: FiguresOrder): Promise<void> {
    this.#child.send(order)
    await this.done(order.kind)
  }

  async done(kind: FiguresReport['kind']): Promise<void> {
    const [report] = await once(this.#child, 'message')
    if (report.kind !== kind) throw new Error(`the clients reported ${report.kind} where ${kind} was due`)
  }

  [Symbol.dispose](): void {
    this.#child.kill()
  }
}

/** A handler that costs next to nothing: it answers the first request, and reads on. */
async function listenBare(path: string): Promise<AsyncDisposable> {
  const asIs = (bytes: Buffer) => bytes
  const grpc = new Server({ 'grpc.max_concurrent_streams': 20_000, 'grpc.enable_channelz': 0 })
  const service = '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets'
  const answer = (call: ServerDuplexStream<Buffer, Buffer>) => {
    call.once('data', () => call.write(Buffer.alloc(0)))
    call.resume()
  }
  grpc.register(service, answer, asIs, asIs, 'bidi')
  const injector = grpc.createConnectionInjector(ServerCredentials.createInsecure())
  const listener = createServer(socket => injector.injectConnection(socket)).listen({ path, backlog: 4_096 })
  await once(listener, 'listening')
  return {
    async [Symbol.asyncDispose]() {
      grpc.forceShutdown()
      listener.close()
      await once(listener, 'close')
    },
  }
}

function heapUsed(): number {
  for (let round = 0; round < 3; round++) global.gc?.()
  return process.memoryUsage().heapUsed
}

/** Bytes of JavaScript heap of one more stream; `perConnection` streams share a connection. */
async function heapPerStream(path: string, perConnection: number): Promise<number> {
  const heaps: number[] = []
  using clients = new Clients()
  for (const streams of [1_000, 3_000]) {
    await clients.run({ kind: 'open', path, connections: streams / perConnection, perConnection })
    heaps.push(heapUsed())
  }
  const [few = 0, many = 0] = heaps
  return (many - few) / 3_000
}

async function measurePushes(source: MemorySource, path: string, streams: number): Promise<void> {
  using clients = new Clients()
  await clients.run({ kind: 'open', path, connections: streams, perConnection: 1 })
  const lasts: number[] = []
  const cpus: number[] = []
  const held: number[] = []
  for (let push = 0; push < PUSHES + WARM_UP; push++) {
    const start = performance.now()
    const cpu = process.cpuUsage()
    const pushed = clients.done('pushed')
    source.setBundle('cluster.local', { version: `${streams}-${push}` })
    const stop = new AbortController()
    const slices = watchSlices(stop.signal)
    await pushed
    stop.abort()
    if (push < WARM_UP) continue
    const { user, system } = process.cpuUsage(cpu)
    lasts.push(performance.now() - start)
    cpus.push((user + system) / streams)
    held.push(...(await slices))
  }
  const last = `${median(lasts).toFixed(0)} ms to the last`
  const cpu = `${median(cpus).toFixed(0)} µs of CPU each`
  console.log(
    `push to ${streams} streams: ${last}, ${cpu}, a timer waits for ${percentile(held, 0.99).toFixed(1)} ms (p99)`,
  )
}

/** How much this thread did between one chance for a timer and the next, milliseconds; others may use the machine. */
async function watchSlices(signal: AbortSignal): Promise<number[]> {
  const slices: number[] = []
  for (let before = threadTime(); !signal.aborted; ) {
    await delay(1)
    const now = threadTime()
    slices.push(now - before)
    before = now
  }
  return slices
}

function threadTime(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

async function measureResponses(path: string, streams: number): Promise<void> {
  using clients = new Clients()
  await clients.run({ kind: 'open', path, connections: streams, perConnection: 1 })
  const rounds = 32_000 / streams
  const cpus: number[] = []
  for (let run = 0; run < 4; run++) {
    const cpu = process.cpuUsage()
    await clients.run({ kind: 'ask', rounds })
    const { user, system } = process.cpuUsage(cpu)
    if (run > 0) cpus.push((user + system) / (rounds * streams))
  }
  console.log(`responses on ${streams} streams: ${median(cpus).toFixed(1)} µs of CPU each`)
}

function median(values: number[]): number {
  return percentile(values, 0.5)
}

function percentile(values: number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? Number.NaN
}

using directory = new TemporaryFolder()
const source = await MemorySource.create(WEB)
using clock = new SystemClock()
const [path, bare] = [join(directory.path, 's.sock'), join(directory.path, 'bare.sock')]
// They ask faster than a caller may by default.
const limits = { perCaller: { requestsPerSecond: 1_000_000, bytes: 2 ** 30 } }
await using _server = await createSdsServer({ sockets: [{ path, allow: [WEB], limits }], source, clock, drainMs: 0 })
await using _bare = await listenBare(bare)
for (const streams of [16, 128]) await measureResponses(path, streams)
for (const streams of [1_000, 5_000]) await measurePushes(source, path, streams)
for (const [what, perConnection] of [
  ['on its own connection', 1],
  ['of 1,000 on a connection', 1_000],
] as const) {
  const [all, grpc] = [await heapPerStream(path, perConnection), await heapPerStream(bare, perConnection)]
  console.log(`an open stream ${what}: ${all.toFixed(0)} bytes of heap; of a bare grpc-js handler ${grpc.toFixed(0)}`)
}

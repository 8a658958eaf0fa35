/** The parts of the agent in a process that counts what a cold start costs it: see `cold-start-costs.test.ts`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { GCProfiler, getHeapStatistics } from 'node:v8'
import { citadel } from '@livery/ca-plugins/citadel'
import { connectionTls } from '@livery/ca-plugins/connection'
import { pluginContext } from '@livery/ca-plugins/testing'
import { SecretManager } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { createKeyGenerator, createKeyVault, nativeCertificateVerifier } from '@livery/native-keygen'
import { createSdsServer } from '@livery/sds-server'
import { EventLog } from '../src/observe/event-log.ts'
import { Ledger } from '../src/observe/ledger.ts'
import { Metrics } from '../src/observe/metrics.ts'
import { EventRecorder } from '../src/secrets/event-recorder.ts'
import { memoryLog } from './memory-log.ts'

/** The first argument, as JSON. */
export interface ColdStartOptions {
  readonly socket: string
  /** `host:port` of the CA, and the file with its root. */
  readonly ca: string
  readonly root: string
}

export type ColdStartOrder =
  /** Starts to count, and adds these identities. */
  | { readonly kind: 'count'; readonly add: readonly SpiffeId[] }
  | { readonly kind: 'add'; readonly add: readonly SpiffeId[] }
  /** Answered with `ColdStartCosts`. */
  | { readonly kind: 'report' }

/** What the process did since the last report. */
export interface ColdStartCosts {
  /** Allocated on V8's heap. */
  readonly heapBytes: number
  /** What of it is left after a collection, with what Node and the addon hold outside of the heap. */
  readonly keptBytes: number
  /** Calls of read(2), write(2) and their variants; `undefined` where the kernel does not count them. */
  readonly systemCalls: number | undefined
}

/** Counts from now on. */
class CostCounter {
  readonly #profiler = new GCProfiler()
  readonly #heapBefore: number
  readonly #keptBefore = keptBytes()
  readonly #callsBefore = systemCalls()

  constructor() {
    this.#profiler.start()
    this.#heapBefore = getHeapStatistics().used_heap_size
  }

  stop(): ColdStartCosts {
    const calls = systemCalls()
    const heapAfter = getHeapStatistics().used_heap_size
    // The heap grows by what is allocated, and shrinks in a collection only.
    let heapBytes = heapAfter - this.#heapBefore
    for (const { beforeGC, afterGC } of this.#profiler.stop().statistics)
      heapBytes += beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize
    return {
      heapBytes,
      keptBytes: keptBytes() - this.#keptBefore,
      systemCalls: calls === undefined || this.#callsBefore === undefined ? undefined : calls - this.#callsBefore,
    }
  }
}

/** Records in a file for Chrome's DevTools which functions allocate, those included whose objects are collected. */
class AllocationProfile {
  readonly #path: string
  readonly #session = new Session()

  constructor(path: string) {
    this.#path = path
    this.#session.connect()
  }

  async start(): Promise<void> {
    await this.#session.post('HeapProfiler.startSampling', {
      includeObjectsCollectedByMajorGC: true,
      includeObjectsCollectedByMinorGC: true,
    })
  }

  async stop(): Promise<void> {
    const { profile } = await this.#session.post('HeapProfiler.stopSampling')
    writeFileSync(this.#path, JSON.stringify(profile))
  }
}

/** After a collection. */
function keptBytes(): number {
  // The first one finds what is unreachable, the second what that has held outside of the heap.
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** https://man7.org/linux/man-pages/man5/proc_pid_io.5.html */
function systemCalls(): number | undefined {
  try {
    const io = readFileSync('/proc/self/io', 'utf8')
    const [, reads, writes] = /^syscr: (\d+)\nsyscw: (\d+)$/m.exec(io) ?? []
    return Number(reads) + Number(writes)
  } catch {
    return undefined
  }
}

async function serve({ socket, ca: address, root }: ColdStartOptions): Promise<SecretManager> {
  const clock = new FakeClock(Date.now())
  const context = pluginContext({ clock })
  const tls = connectionTls({ rootCert: root, log: context.log })
  const ca = await citadel.create({ ...context, tls }, { address, impersonate: true })
  const manager = new SecretManager({
    ca,
    keyGenerator: createKeyGenerator().generator,
    vault: createKeyVault().vault,
    ...(nativeCertificateVerifier && { verifier: nativeCertificateVerifier }),
    clock,
    trustDomain: 'cluster.local',
  })
  const ledger = new Ledger(name => manager.holds(name))
  const log = new EventLog(memoryLog('warn'), clock)
  const recorder = new EventRecorder({
    clock,
    ledger,
    log,
    metrics: new Metrics(),
    life: { phase: 'serving' },
  })
  manager.events.subscribe(report => recorder.secret(report))
  const server = await createSdsServer({
    sockets: [{ path: socket, allow: ['spiffe://cluster.local/ns/load/sa/*'] }],
    source: manager,
    clock,
  })
  server.events.subscribe(event => recorder.sds(event))
  return manager
}

const manager = await serve(JSON.parse(process.argv.at(-1) ?? ''))
const profilePath = process.env['HEAP_PROFILE']
const profile = profilePath === undefined ? undefined : new AllocationProfile(profilePath)
let counter: CostCounter | undefined

process.on('message', async (order: ColdStartOrder) => {
  if (order.kind === 'report') {
    const costs = counter?.stop()
    await profile?.stop()
    process.send?.(costs)
    return
  }
  if (order.kind === 'count') {
    await profile?.start()
    counter = new CostCounter()
  }
  for (const identity of order.add) manager.add(identity)
  process.send?.('added')
})
process.send?.('ready')

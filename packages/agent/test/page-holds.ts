/**
 * An admin endpoint over so many identities, `node page-holds.ts COUNT`: prints its port, and for each line on standard input the
 * longest turn of its event loop since the last one, in milliseconds of CPU, since the machine may have other work, without the
 * pauses of the garbage collector.
 */
import { PerformanceObserver } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { SecretManager } from '@livery/core'
import { SystemClock } from '@livery/core/plugin'
import { TestCA, TestKeyGenerator } from '@livery/core/testing'
import { AdminServer } from '../src/admin/admin-server.ts'
import { pageRoutes } from '../src/page/page-answers.ts'
import { adminSource, failingEntry } from './admin-source.ts'

const clock = new SystemClock()
const keyGenerator = new TestKeyGenerator()
const ca = await TestCA.create(clock)
const secrets = new SecretManager({ ca, clock, keyGenerator, trustDomain: 'cluster.local' })
const entries = new Map(
  Array.from({ length: Number(process.argv[2]) }, (_, index) => failingEntry(index)).map(entry => [
    entry.identity as string,
    entry,
  ]),
)
const server = await AdminServer.listen({
  routes: 'admin',
  makeRoutes: pageRoutes,
  address: { host: '127.0.0.1', port: 0 },
  source: {
    ...adminSource({ secrets, clock, keyGenerator }),
    identities: () => Array.from(entries.values(), ({ identity }) => identity),
    entry: name => entries.get(name),
  },
  onError: error => {
    throw error
  },
})
/** Turns of the event loop and runs of the garbage collector, by the monotonic clock. */
const turns: { readonly start: number; readonly end: number; readonly cpu: number }[] = []
const collections: { readonly start: number; readonly end: number }[] = []
const observer = new PerformanceObserver(list => {
  for (const { startTime, duration } of list.getEntries())
    collections.push({ start: startTime, end: startTime + duration })
})
observer.observe({ entryTypes: ['gc'] })
let start = performance.now()
let before = process.threadCpuUsage()
const measure = (): void => {
  const end = performance.now()
  const { user, system } = process.threadCpuUsage(before)
  const cpu = (user + system) / 1_000
  if (cpu > 2) turns.push({ start, end, cpu })
  start = end
  before = process.threadCpuUsage()
  setImmediate(measure)
}
setImmediate(measure)

/** Without the garbage collector, whose pauses grow with what else the machine does. */
function longestTurn(): number {
  const own = turns.map(turn => {
    const pauses = collections.filter(each => each.start >= turn.start && each.end <= turn.end)
    return turn.cpu - pauses.reduce((sum, pause) => sum + pause.end - pause.start, 0)
  })
  return Math.max(0, ...own)
}

process.stdout.write(`${server.address.port}\n`)
for await (const _line of createInterface({ input: process.stdin })) {
  // The observer is notified in a turn of its own.
  await setTimeout(50)
  process.stdout.write(`${longestTurn()}\n`)
  turns.length = 0
  collections.length = 0
}

/**
 * An admin endpoint over so many identities, `node page-holds.ts COUNT`: prints its port, and for each line on standard input the
 * longest turn of its event loop since the last one, in milliseconds of CPU, since the machine may have other work.
 */
import { createInterface } from 'node:readline'
import { SecretManager, SystemClock } from '@livery/core'
import { TestCA, TestKeyGenerator } from '@livery/core/testing'
import { AdminServer } from '../src/admin/admin-server.ts'
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
let longest = 0
let before = process.threadCpuUsage()
const measure = (): void => {
  const { user, system } = process.threadCpuUsage(before)
  longest = Math.max(longest, (user + system) / 1_000)
  before = process.threadCpuUsage()
  setImmediate(measure)
}
setImmediate(measure)
process.stdout.write(`${server.address.port}\n`)
for await (const _line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${longest}\n`)
  longest = 0
}

/** Calls to a CA in its own network namespace, whose loopback goes down and up: run by `citadel-network.test.ts` in namespaces. */
import { execFileSync } from 'node:child_process'
import { lookup } from 'node:dns/promises'
import { CAError, SystemClock } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { FaultyCaServer } from '../src/testing/faulty-ca-server.ts'
import { pluginContext } from '../src/testing/plugin-context.ts'
import { workloadRequest } from '../src/testing/workload-request.ts'
import { createCitadel, WEB } from './citadel-setup.ts'

const CALL_MS = 10_000
const findings: Record<string, unknown> = {}

function setLoopback(state: 'up' | 'down'): void {
  execFileSync('ip', ['link', 'set', 'lo', state])
}

/** Every packet of the connection is lost, and no end ever hears of it. */
async function cutAndRestore(): Promise<void> {
  await using server = await FaultyCaServer.start()
  const clock = new FakeClock()
  const rootCert = server.authority.trustBundle().join('')
  await using client = await createCitadel({ address: server.address, rootCert }, pluginContext({ clock }))
  await client.issue(await workloadRequest(WEB))
  setLoopback('down')
  const issuing = client.issue(await workloadRequest(WEB)).catch((error: unknown) => error)
  await clock.waitForDeadline(time => time === clock.now() + CALL_MS)
  await clock.advance(CALL_MS)
  const error = await issuing
  findings['code'] = error instanceof CAError && error.code
  setLoopback('up')
  await client.issue(await workloadRequest(WEB))
  findings['restored'] = true
}

/** A name with an address of each family, of which one has no listener. */
async function eachFamily(): Promise<void> {
  const addresses = await lookup('localhost', { all: true })
  for (const { address } of addresses) {
    await using server = await FaultyCaServer.start({ host: address })
    const rootCert = server.authority.trustBundle().join('')
    const context = pluginContext({ clock: new SystemClock() })
    const port = server.address.slice(address.length + 1)
    await using client = await createCitadel({ address: `localhost:${port}`, rootCert }, context)
    await client.issue(await workloadRequest(WEB))
  }
  findings['families'] = addresses.map(({ family }) => family).toSorted()
}

await cutAndRestore()
await eachFamily()
process.stdout.write(JSON.stringify(findings))

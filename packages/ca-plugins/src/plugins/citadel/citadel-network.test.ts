/** Network faults of a connection: it goes silent, a load balancer drains it, one of a name's addresses is dead. */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { lookup } from 'node:dns/promises'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type CAClient, type IssuedCertificate, SystemClock } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { API, createCitadel, isCAError, WEB } from '../../../test/citadel-setup.ts'
import { CuttableProxy } from '../../../test/cuttable-proxy.ts'
import { FaultyCaServer } from '../../testing/faulty-ca-server.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'

const CALL_MS = 10_000
/** Within this time a CA that is back is dialled. */
const REDIAL_MS = 250

test('a connection that goes silent is given up within 30 s, and the next call has a new one', async () => {
  await using server = await FaultyCaServer.start()
  await using proxy = await CuttableProxy.start(Number(server.address.split(':')[1]))
  const clock = new FakeClock()
  const rootCert = server.authority.trustBundle().join('')
  await using client = await createCitadel({ address: `127.0.0.1:${proxy.port}`, rootCert }, pluginContext({ clock }))
  await client.issue(await workloadRequest(WEB))
  proxy.stall()
  const start = clock.now()
  for (let call = 1; call <= 2; call++) {
    const issuing = assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('timeout'))
    await clock.waitForDeadline(time => time === clock.now() + CALL_MS)
    await clock.advance(CALL_MS)
    await issuing
  }
  await client.issue(await workloadRequest(WEB))
  assert.ok(clock.now() - start < 30_000)
})

test('a call that may wait for its connection succeeds as soon as the CA is back, and fails with the reason if it is not', async () => {
  await using server = await FaultyCaServer.start()
  await using proxy = await CuttableProxy.start(Number(server.address.split(':')[1]))
  const clock = new FakeClock()
  const rootCert = server.authority.trustBundle().join('')
  await using client = await createCitadel({ address: `127.0.0.1:${proxy.port}`, rootCert }, pluginContext({ clock }))
  await client.issue(await workloadRequest(WEB))
  await proxy.refuse()
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable'))
  const request = async () => ({ ...(await workloadRequest(WEB)), connectWithinMs: 5_000 })
  const inVain = assert.rejects(client.issue(await request()), isCAError('unavailable', /ECONNREFUSED/))
  await clock.waitForDeadline(time => time === clock.now() + 5_000)
  await clock.advance(5_000)
  await inVain
  const waiting = client.issue(await request())
  await clock.waitForDeadline(time => time === clock.now() + 5_000)
  await proxy.accept()
  await clock.advance(REDIAL_MS)
  await waiting
  assert.equal(clock.deadlines().length, 0)
})

test('a load balancer that drains a connection loses no call in flight, and what it refuses succeeds when it is asked again', async () => {
  await using server = await FaultyCaServer.start({ maxConnectionAgeMs: 100 })
  const rootCert = server.authority.trustBundle().join('')
  const context = pluginContext({ clock: new SystemClock() })
  await using client = await createCitadel({ address: server.address, rootCert }, context)
  for (let round = 1; round <= 3; round++) {
    const { promise: until, resolve: answer } = Promise.withResolvers<void>()
    server.behaviour = { kind: 'sign', until }
    const arrived = server.nextCall()
    const inFlight = issueUntilArrived(client, arrived)
    await arrived
    const connections = server.connections
    server.behaviour = { kind: 'sign' }
    while (server.connections === connections)
      await client.issue(await workloadRequest(API)).catch(isCAError('unavailable'))
    answer()
    await inFlight
  }
})

/** A call that crosses the GOAWAY on its way is refused unprocessed, and made again, as core does. */
async function issueUntilArrived(client: CAClient, arrived: Promise<unknown>): Promise<IssuedCertificate> {
  let hasArrived = false
  void arrived.then(() => {
    hasArrived = true
  })
  for (;;) {
    try {
      return await client.issue(await workloadRequest(WEB))
    } catch (error) {
      if (hasArrived) throw error
      isCAError('unavailable')(error)
    }
  }
}

const addresses = await lookup('localhost', { all: true })
test('a name with an address of each family works though only one of them answers', {
  skip: addresses.length < 2 && 'localhost has one address here',
}, async () => {
  for (const host of addresses.map(({ address }) => address)) {
    await using server = await FaultyCaServer.start({ host })
    const port = server.address.slice(host.length + 1)
    const rootCert = server.authority.trustBundle().join('')
    const context = pluginContext({ clock: new SystemClock() })
    await using client = await createCitadel({ address: `localhost:${port}`, rootCert }, context)
    await client.issue(await workloadRequest(WEB))
  }
})

const NAMESPACES = ['--net', '--mount', 'sh', '-c']
const canUnshare =
  spawnSync('unshare', [...NAMESPACES, 'ip link set lo up && ip -6 address show lo | grep ::1']).status === 0
test('a connection whose network is cut is given up, one to the restored network works, and so does either address family', {
  skip: !canUnshare && 'needs root, unshare(1) and ip(8) with IPv6, to have a network of its own',
}, async t => {
  const hosts = join(temporaryFolder(t), 'hosts')
  await writeFile(hosts, '127.0.0.1 localhost\n::1 localhost\n')
  const script = fileURLToPath(new URL('../../../test/cut-network.ts', import.meta.url))
  const inside = `ip link set lo up && mount --bind ${hosts} /etc/hosts && exec "$0" --conditions=@livery/source ${script}`
  const { stdout, stderr } = await promisify(execFile)('unshare', [...NAMESPACES, inside, process.execPath])
  assert.deepEqual(JSON.parse(stdout), { code: 'timeout', restored: true, families: [4, 6] }, stderr)
})

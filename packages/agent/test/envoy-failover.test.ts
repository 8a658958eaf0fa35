/** A list of two CAs under different roots: the first goes down and comes back under the traffic of two Envoys. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { FaultyCaServer } from '@livery/ca-plugins/testing'
import { get, makeFolder, noEnvoy, Pair, startAgent, Traffic, until } from './envoy-bench.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

test('two Envoys do mutual TLS while the CA fails over and comes back, and no request fails', {
  skip: noEnvoy,
}, async () => {
  await using folder = await makeFolder()
  await using first = await FaultyCaServer.start()
  await using second = await FaultyCaServer.start()
  const roots = [first, second].map(({ authority }) => authority.trustBundle().join(''))
  for (const [index, pem] of roots.entries()) await writeFile(join(folder.path, `${index}.pem`), pem)
  await writeFile(join(folder.path, 'roots.pem'), roots.join(''))
  await using agent = await startAgent(folder.path, {
    trustDomain: 'cluster.local',
    ttl: '8s',
    rotation: { settle: '1s' },
    ca: {
      plugin: 'failover',
      failures: 1,
      pause: '1s',
      maxPause: '2s',
      roots: 'roots.pem',
      cas: [
        { plugin: 'citadel', address: first.address, rootCert: '0.pem' },
        { plugin: 'citadel', address: second.address, rootCert: '1.pem' },
      ],
    },
    identities: [
      { id: WEB, socket: 'run/web.sock' },
      { id: API, socket: 'run/api.sock' },
    ],
  })
  await using pair = await Pair.start(folder.path, {
    web: join(folder.path, 'run/web.sock'),
    api: join(folder.path, 'run/api.sock'),
  })
  await pair.live()
  await using traffic = new Traffic(pair.port)
  const callers = (count: number) =>
    until(`web has shown ${count} certificates`, async () => traffic.serials.size >= count || undefined)
  await callers(2)
  assert.equal(second.calls.length, 0)

  first.behaviour = { kind: 'reset' }
  const asked = second.calls.length
  await until('the second CA has issued', async () => second.calls.length >= asked + 4 || undefined)
  await callers(traffic.serials.size + 1)

  first.behaviour = { kind: 'sign' }
  const before = first.calls.length
  await until('the first CA issues again', async () => first.calls.length >= before + 4 || undefined)
  await callers(traffic.serials.size + 1)
  await traffic.stop()

  assert.deepEqual(traffic.failures, [])
  assert.ok(traffic.requests > 100, `only ${traffic.requests} requests`)
  const { body } = await get(agent.adminPort, '/metrics')
  for (const name of ['opened', 'half_opened', 'closed', 'taken_over'])
    assert.match(body, new RegExp(`^livery_ca_plugin_failover_${name}_total [1-9]`, 'm'))
  assert.match(agent.output, /The CA citadel at \S+ is left alone for 1000 ms/)
  assert.match(agent.output, /The CA citadel at \S+ answers again/)
})

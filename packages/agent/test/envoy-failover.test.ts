/** A list of two CAs under different roots: the first goes down and comes back under the traffic of two Envoys. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { FaultyCaServer } from '@livery/ca-plugins/testing'
import { get, noEnvoy, until } from './envoy-bench.ts'
import { rotateUnderTraffic } from './envoy-rotation.ts'

test('two Envoys do mutual TLS while the CA fails over and comes back, and no request fails', {
  skip: noEnvoy,
}, async () => {
  await using first = await FaultyCaServer.start()
  await using second = await FaultyCaServer.start()
  await rotateUnderTraffic({
    async ca(folder) {
      const roots = [first, second].map(({ authority }) => authority.trustBundle().join(''))
      for (const [index, pem] of roots.entries()) await writeFile(join(folder, `${index}.pem`), pem)
      await writeFile(join(folder, 'roots.pem'), roots.join(''))
      const cas = [first, second].map(({ address }, index) => ({
        plugin: 'citadel',
        address,
        rootCert: `${index}.pem`,
      }))
      return { plugin: 'failover', after: '0s', roots: 'roots.pem', cas }
    },
    settings: { ttl: '8s', rotation: { settle: '1s' } },
    async between(agent) {
      assert.equal(second.calls.length, 0)
      first.behaviour = { kind: 'reset' }
      await until('the second CA has issued twice for each', async () => second.calls.length >= 4 || undefined)
      first.behaviour = { kind: 'sign' }
      const before = first.calls.length
      await until('the first CA issues again', async () => first.calls.length >= before + 2 || undefined, 60_000)

      const { body } = await get(agent.adminPort, '/metrics')
      for (const name of ['opened', 'half_opened', 'closed', 'taken_over'])
        assert.match(body, new RegExp(`^livery_ca_plugin_failover_${name}_total [1-9]`, 'm'))
      assert.match(agent.output, /The CA citadel at \S+ is left alone for 30000 ms, and the next one stands in: /)
      assert.match(agent.output, /The CA citadel at \S+ answers again/)
    },
  })
})

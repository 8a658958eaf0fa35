/** istiod refuses everybody while its API server is away: a real server and connection, with the time of a test. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import { SecretManager } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import { FakeClock, TestKeyGenerator } from '@livery/core/testing'
import { createCitadel } from '../../../test/citadel-setup.ts'
import { type CaBehaviour, FaultyCaServer } from '../../testing/faulty-ca-server.ts'
import { pluginContext } from '../../testing/plugin-context.ts'

const STEP_MS = 250
const WITHIN_MS = 3_000

const refusals: readonly (readonly [string, number, CaBehaviour])[] = [
  ['does not authenticate anybody', 1_000, { kind: 'refuse', code: status.UNAUTHENTICATED }],
  ['denies everybody', 50, { kind: 'refuse', code: status.PERMISSION_DENIED }],
  ['accepts no CSR', 50, { kind: 'refuse', code: status.INVALID_ARGUMENT }],
  ['has no room', 50, { kind: 'refuse', code: status.RESOURCE_EXHAUSTED }],
  ['answers nonsense', 50, { kind: 'answer-bytes', bytes: Buffer.from('nonsense') }],
  ['signs for another key', 50, { kind: 'wrong-key' }],
]

for (const [what, count, behaviour] of refusals)
  test(`a CA that ${what} for two minutes: ${count} identities are served within 3 s after it, and it was asked once a second meanwhile`, async () => {
    await using server = await FaultyCaServer.start()
    const rootCert = server.authority.trustBundle().join('')
    // The server has the machine's time.
    const clock = new FakeClock(Date.now())
    await using client = await createCitadel({ address: server.address, rootCert }, pluginContext({ clock }))
    const parts = { ca: client, clock, keyGenerator: new TestKeyGenerator(), trustDomain: 'cluster.local' }
    await using manager = new SecretManager({ ...parts, random: () => 0.5 })
    const pass = async (ms: number, until = () => false) => {
      let passed = 0
      for (; passed < ms && !until(); passed += STEP_MS) {
        await clock.advance(STEP_MS)
        for (let turn = 0; turn < 20_000 && manager.schedule().inFlight > 0; turn++) await nextTurn()
      }
      return passed
    }
    server.behaviour = behaviour
    const identities = Array.from(
      { length: count },
      (_, index): SpiffeId => `spiffe://cluster.local/ns/a/sa/sa-${index}`,
    )
    for (const identity of identities) manager.add(identity)
    await pass(120_000)
    const asked = server.calls.length
    assert.ok(asked <= 3 * count + 120, `asked ${asked} times`)
    server.behaviour = { kind: 'sign' }
    const areServed = () => identities.every(identity => manager.entry(identity)?.secret)
    const passed = await pass(20_000, areServed)
    assert.ok(passed <= WITHIN_MS, `the last one was served ${passed} ms after the end`)
  })

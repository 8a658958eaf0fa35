import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import type { SecretManagerOptions } from '../secret-manager-options.ts'
import type { TestCA } from '../testing/test-ca.ts'
import { defaultSettleMs, hearingTime } from './settle-time.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const facts = { pollMs: 5 * MINUTE, lifetimeMs: 10 * HOUR, ratio: 0.5, jitter: 0.1 }

test('a root settles for longer than its news travel, with one poll that may fail', () => {
  assert.equal(defaultSettleMs({ ...facts, roots: 'push' }), 10_000)
  assert.equal(defaultSettleMs({ ...facts, roots: 'poll' }), 10 * MINUTE + 10_000)
  assert.equal(hearingTime({ ...facts, roots: 'none' }), 6 * HOUR)
  assert.equal(defaultSettleMs({ ...facts, roots: 'none' }), 6 * HOUR + 10_000)
  assert.equal(defaultSettleMs({ ...facts, roots: 'none', lifetimeMs: 1_000 * HOUR }), 24 * HOUR, 'a day at most')
})

const polled = (ca: TestCA) => void Object.assign(ca, { subscribe: undefined })
const unlisted = (ca: TestCA) => void Object.assign(ca, { subscribe: undefined, trustBundle: undefined })

/** Milliseconds from the answer under a new root until it is served. */
async function heldFor(prepare: (ca: TestCA) => void, options: Partial<SecretManagerOptions> = {}): Promise<number> {
  await using bench = await Bench.create({ rootsPollMs: 20 * HOUR, ...options }, prepare)
  const { serialNumber } = await bench.add(WEB)
  const due = bench.manager.entries()[0]?.renewAt ?? 0
  await bench.clock.advance(due - 1_000 - bench.clock.now())
  await bench.ca.addRoot()
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  await bench.clock.advance(0)
  const start = bench.clock.now()
  if (bench.served(WEB)?.serialNumber !== serialNumber) return 0
  assert.equal(bench.last('served-later').reason, 'root-announcing')
  // `receivedAt` belongs to the certificate in use, not to the one that waits.
  const { receivedAt = 0, lastSuccessAt = 0 } = bench.manager.entry(WEB) ?? {}
  assert.ok(receivedAt < lastSuccessAt && lastSuccessAt <= start)
  await bench.clock.advance(bench.last('served-later').until - start)
  assert.notEqual(bench.served(WEB)?.serialNumber, serialNumber)
  return bench.clock.now() - start
}

test('a leaf under a new root of a polled list waits for two polls, if its predecessor lasts until then', async () => {
  assert.equal(await heldFor(polled, { rootsPollMs: HOUR }), 2 * HOUR + 10_000)
})

test('a leaf under a root that came with a certificate waits for a renewal of everybody, but not into the last tenth of the lifetime before', async () => {
  assert.equal(await heldFor(unlisted, { rotation: { ratio: 0.25, jitter: 0 } }), 6 * HOUR + 10_000)
  const left = 0.5 * 24 * HOUR
  const held = await heldFor(unlisted, { rotation: { ratio: 0.5, jitter: 0 } })
  assert.ok(Math.abs(held - 0.8 * left) < MINUTE, `${held / HOUR} h`)
})

test('a settle time that is configured counts', async () => {
  assert.equal(await heldFor(polled, { rotation: { settleMs: 5_000 } }), 5_000)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { World, type WorldSettings } from './world.ts'

const MINUTE = 60_000
const small: WorldSettings = {
  nodes: 3,
  identities: 20,
  ttlMs: 60 * MINUTE,
  replicas: 2,
  rate: 50,
  queue: 100,
  retryAfterMs: undefined,
  roundTripMs: 2,
  callTimeoutMs: 10_000,
  bootWithinMs: 1_000,
  skewMs: 0,
  names: 'own',
  roots: 'none',
  outages: [],
  seed: 1,
}

async function run(settings: WorldSettings, ms: number) {
  const world = await World.create(settings, () => {})
  world.runUntil(ms)
  return world.measure()
}

test('real scheduling serves everybody and renews in time', async () => {
  const { service, signed, refused } = await run(small, 90 * MINUTE)
  assert.equal(service.neverServed, 0)
  assert.equal(service.lapsed, 0)
  assert.equal(refused, 0)
  assert.ok(service.worstRemainingS > 0.39 * 3_600, `${service.worstRemainingS}`)
  assert.ok(signed.total >= 3 * 60, 'each had its first one and two renewals at least')
})

test('the same seed gives the same numbers, another one others', async () => {
  const first = await run(small, 60 * MINUTE)
  assert.deepEqual(await run(small, 60 * MINUTE), first)
  assert.notDeepEqual(await run({ ...small, seed: 2 }, 60 * MINUTE), first)
})

test('a short queue refuses, and everybody is served all the same', async () => {
  const { service, refused } = await run({ ...small, queue: 2, retryAfterMs: 500 }, 10 * MINUTE)
  assert.ok(refused > 0)
  assert.equal(service.neverServed, 0)
})

test('an outage longer than what is left is seen as a lapse', async () => {
  const outages = [{ afterMs: 20 * MINUTE, forMs: 60 * MINUTE, manner: 'refuse' }] as const
  const { service } = await run({ ...small, outages }, 100 * MINUTE)
  assert.equal(service.lapsed, 60)
  assert.ok(service.lapsedIdentitySeconds > 60 * 19 * 60, `${service.lapsedIdentitySeconds}`)
})

test('a node whose clock is far behind gets nothing', async () => {
  const { service } = await run({ ...small, nodes: 20, skewMs: 30 * MINUTE }, 10 * MINUTE)
  assert.ok(service.neverServed > 0 && service.neverServed < 400, `${service.neverServed}`)
})

test('a node whose clock is ahead renews as much earlier as its certificate seems shorter', async () => {
  const skewMs = 20 * MINUTE
  const { service, signed } = await run({ ...small, skewMs, nodes: 20 }, 23 * MINUTE)
  // Half of what is left, or a tenth more or less: of 40 minutes at most, where right clocks leave 60.
  assert.ok(signed.total > 20 * 20 - service.neverServed, `${signed.total}`)
  const { service: right, signed: signedInTime } = await run({ ...small, nodes: 20 }, 23 * MINUTE)
  assert.equal(right.neverServed, 0)
  assert.equal(signedInTime.total, 20 * 20)
})

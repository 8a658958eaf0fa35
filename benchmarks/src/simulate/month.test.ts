import assert from 'node:assert/strict'
import { test } from 'node:test'
import { month, monthOfReplica, replicaMonths, sampling } from './month.ts'
import type { ScenarioSettings } from './scenarios.ts'

const HOUR = 3_600_000
const small: ScenarioSettings = {
  nodes: 40,
  identities: 25,
  ttlMs: 2 * HOUR,
  replicas: 4,
  rate: 10,
  queue: 20,
  retryAfterMs: undefined,
  roundTripMs: 2,
  callTimeoutMs: 10_000,
  bootWithinMs: 1_000,
  skewMs: 0,
  outageMs: HOUR / 2,
  days: 1,
  sample: 2,
  names: 'own',
  seed: 1,
}

test('a replica has the same month on another thread as here', async () => {
  const [first, second] = replicaMonths(small)
  assert.ok(first && second)
  const rows = await month(small, () => {})
  assert.deepEqual(rows[0], await monthOfReplica(first, () => {}))
  assert.deepEqual(rows[1]?.measured, (await monthOfReplica(second, () => {})).measured)
})

test('every node is on one of the replicas', () => {
  const shares = replicaMonths(small).map(({ world }) => world.nodes)
  assert.equal(shares.length, 4)
  assert.equal(
    shares.reduce((sum, each) => sum + each, 0),
    40,
  )
})

test('short outages cost nothing, one of half a lifetime does, and all recover from each', async () => {
  const [replica] = replicaMonths(small)
  assert.ok(replica)
  const { trouble, measured } = await monthOfReplica(replica, () => {})
  assert.ok(trouble)
  const worst = (shares: Float64Array, fromHour: number, untilHour: number) =>
    Math.max(...shares.subarray(60 * fromHour, 60 * untilHour))
  for (const start of [6, 12]) {
    assert.equal(worst(trouble.without, start, start + 2), 0)
    assert.ok(worst(trouble.failing, start, start + 1) > 0)
  }
  assert.ok(worst(trouble.without, 18, 20) > 0)
  for (const hour of [8, 14, 20]) assert.equal(trouble.failing[60 * hour], 0)
  assert.ok(measured.service.lapsed > 0)
})

test('two of ten replicas give the mean load of all within a hundredth, as the error that is printed says', async () => {
  const settings = { ...small, nodes: 100, replicas: 10 }
  const months = replicaMonths(settings)
  const rows = await Promise.all(months.map(each => monthOfReplica(each, () => {})))
  const meanOf = (sample: number) => {
    const note = sampling(settings, months.slice(0, sample), rows.slice(0, sample)).at(-1) ?? ''
    const [, mean, error] = /signs ([\d.]+) a second .* of ([\d.]+) %/.exec(note) ?? []
    return { mean: Number(mean), error: Number(error) }
  }
  const [few, all] = [meanOf(2), meanOf(10)]
  assert.equal(all.error, 0)
  assert.ok(Math.abs(few.mean / all.mean - 1) < 0.01, `${few.mean} of ${all.mean}`)
  assert.ok(few.error > 0 && few.error < 1, `${few.error} %`)
})

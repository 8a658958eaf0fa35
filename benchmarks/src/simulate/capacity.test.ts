import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judge, type Trial } from './capacity.ts'

const good: Trial = {
  ttlMs: 3_600_000,
  identities: 100,
  bootS: 10,
  refusedAtBoot: 0,
  refusedAfterOutage: 0,
  lapsedIdentitySeconds: 0,
  recoveredAfterS: 60,
}

test('each demand holds up to the last size before it first failed', () => {
  const trials = [
    good,
    { ...good, identities: 200, refusedAtBoot: 0.02 },
    { ...good, identities: 400, refusedAtBoot: 0.001, lapsedIdentitySeconds: 1 },
    { ...good, identities: 800, bootS: 601 },
  ]
  assert.deepEqual(judge(trials, 600_000), {
    bootInTime: 400,
    fewRefusedAtBoot: 100,
    fewRefusedAfterOutage: 800,
    nothingLost: 200,
  })
})

test('a demand that even the smallest size fails allows none', () => {
  assert.equal(judge([{ ...good, bootS: Number.POSITIVE_INFINITY }], 600_000).bootInTime, 0)
})

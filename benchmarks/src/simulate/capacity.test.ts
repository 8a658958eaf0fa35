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

const goal = { bootGoalMs: 600_000, canSurvive: true }

test('each demand holds up to the last size before it first failed', () => {
  const trials = [
    good,
    { ...good, identities: 200, lapsedIdentitySeconds: 1 },
    { ...good, identities: 400, lapsedIdentitySeconds: 0, refusedAfterOutage: 0.02 },
    { ...good, identities: 800, bootS: 601 },
  ]
  assert.deepEqual(judge(trials, goal), { bootInTime: 400, fewRefused: 200, nothingLost: 100, all: 100 })
})

test('a demand that even the smallest size fails allows none', () => {
  assert.equal(judge([{ ...good, bootS: Number.POSITIVE_INFINITY }], goal).all, 0)
})

test('what no size can meet does not count', () => {
  const trials = [{ ...good, lapsedIdentitySeconds: 7 }]
  assert.deepEqual(judge(trials, { ...goal, canSurvive: false }), {
    bootInTime: 100,
    fewRefused: 100,
    nothingLost: undefined,
    all: 100,
  })
})

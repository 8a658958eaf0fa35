import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ServiceRecord } from './service-record.ts'

test('a replacement in time shows what was left, and no lapse', () => {
  const record = new ServiceRecord(1, 0)
  record.served(0, 1_000, 100_000)
  record.served(0, 60_000, 160_000)
  assert.deepEqual(record.finish(100_000), {
    neverServed: 0,
    allServedAfterS: 1,
    worstRemainingS: 40,
    lapsed: 0,
    lapsedIdentitySeconds: 0,
  })
})

test('the time between the end of one and the next is a lapse, and so is the time up to the end of the run', () => {
  const record = new ServiceRecord(2, 0)
  record.served(0, 0, 10_000)
  record.served(0, 15_000, 30_000)
  record.served(1, 0, 10_000)
  const { lapsed, lapsedIdentitySeconds, worstRemainingS } = record.finish(20_000)
  assert.equal(lapsed, 2)
  assert.equal(lapsedIdentitySeconds, 5 + 10)
  assert.equal(worstRemainingS, -10)
})

test('a certificate that was withdrawn is gone from then on, though it has not ended', () => {
  const record = new ServiceRecord(1, 0)
  record.served(0, 0, 100_000)
  record.withdrawn(0, 40_000)
  record.served(0, 50_000, 200_000)
  assert.equal(record.finish(60_000).lapsedIdentitySeconds, 10)
})

test('serving on after the end, with a clock that is behind, does not count', () => {
  const record = new ServiceRecord(1, 0)
  record.served(0, 0, 10_000)
  record.withdrawn(0, 70_000)
  record.served(0, 80_000, 200_000)
  assert.equal(record.finish(90_000).lapsedIdentitySeconds, 70)
})

test('who never got one is counted as such', () => {
  const record = new ServiceRecord(3, 0)
  record.served(1, 5_000, 10_000)
  assert.equal(record.waiting, 2)
  const { neverServed, lapsed, allServedAfterS } = record.finish(6_000)
  assert.deepEqual([neverServed, lapsed, allServedAfterS], [2, 0, 5])
})

test('who has none any longer is counted until the next one comes', () => {
  const record = new ServiceRecord(2, 0)
  record.served(0, 0, 10_000)
  assert.equal(record.without, 0)
  record.withdrawn(0, 10_000)
  record.withdrawn(0, 11_000)
  assert.equal(record.without, 1)
  record.served(0, 12_000, 30_000)
  assert.equal(record.without, 0)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Counts, peaks, quantile, summarise } from './rates.ts'

test('events are counted in the second in which they fall', () => {
  const counts = new Counts(10_000, 1_000)
  for (const time of [10_000, 10_999, 11_000, 13_500]) counts.add(time)
  assert.deepEqual([...counts.between(10_000, 14_000)], [2, 1, 0, 1])
  assert.deepEqual([...counts.between(11_000, 12_000)], [1])
})

test('a span beyond what was counted is idle', () => {
  const counts = new Counts(0, 1_000)
  counts.add(5_000_000)
  assert.equal(summarise(counts.between(0, 10_000_000)).total, 1)
  assert.equal(counts.between(0, 10_000_000).length, 10_000)
})

test('idle seconds lower the mean, not the peak', () => {
  assert.deepEqual(summarise(Float64Array.of(4, 0, 0, 0)), { total: 4, peak: 4, mean: 1, p99: 4 })
})

test('one second in a hundred may be above the p99', () => {
  const counts = new Float64Array(200).fill(1)
  counts[7] = 50
  counts[8] = 60
  assert.equal(summarise(counts).p99, 1)
  counts[9] = 40
  assert.equal(summarise(counts).p99, 40)
})

test('a quantile is one of the values, and 0 of none', () => {
  const waits = new Counts(0, 1)
  assert.equal(quantile(waits.all(), 0.99), 0)
  for (const wait of [5.2, 1, 3.9]) waits.add(wait)
  assert.equal(quantile(waits.all(), 0.5), 3)
  assert.equal(quantile(waits.all(), 1), 5)
})

test('a plot with few points still shows a peak of one second', () => {
  const counts = new Float64Array(1_000)
  counts[501] = 9
  const points = peaks(counts, 10)
  assert.equal(points.length, 10)
  assert.deepEqual(points[5], { second: 500, peak: 9 })
})

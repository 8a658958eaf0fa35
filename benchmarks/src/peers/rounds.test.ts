import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inRounds, median, pairRatio } from './rounds.ts'

test('the median is the middle sample, of an even number the mean of the two in the middle', () => {
  assert.equal(median([9, 1, 5]), 5)
  assert.equal(median([4, 1, 3, 2]), 2.5)
  assert.ok(Number.isNaN(median([])))
})

test('a ratio is the median of the pairs, so that a slow round on both sides does not count', () => {
  assert.equal(pairRatio([1, 10, 2], [2, 20, 4]), 0.5)
  // The ratio of the medians would be 3.
  assert.equal(pairRatio([1, 3, 9], [1, 1, 3]), 3)
  assert.equal(pairRatio([1, 2, 100], [1, 4, 400]), 0.5)
})

test('sides with different numbers of samples have no ratio', () => {
  assert.throws(() => pairRatio([1, 2], [1]), RangeError)
})

test('every side is measured once a round, and each round begins with another', async () => {
  const order: string[] = []
  const side = (name: string) => ({
    name,
    measure: async () => {
      order.push(name)
      return { time: order.length }
    },
  })
  const said: string[] = []
  const measured = await inRounds(3, [side('a'), side('b')], message => said.push(message))
  assert.deepEqual(order, ['a', 'b', 'b', 'a', 'a', 'b'])
  assert.deepEqual(measured('a', 'time'), [1, 4, 5])
  assert.equal(said.length, 6)
  assert.throws(() => measured('a', 'memory'), /a did not measure memory/)
})

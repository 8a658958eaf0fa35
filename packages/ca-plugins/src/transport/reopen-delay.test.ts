/** The waiting between two streams. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reopenDelay } from './reopen-delay.ts'

test('it doubles from one second to thirty, and no further', () => {
  const delays = [0, 1, 2, 3, 4, 5, 6, 5_000].map(ends => reopenDelay(ends, 0.5))
  assert.deepEqual(delays, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
})

test('a thousand nodes that lost their streams at once are spread over as long as they wait', () => {
  for (const ends of [0, 5]) {
    const usual = reopenDelay(ends, 0.5)
    assert.equal(reopenDelay(ends, 0), usual / 2)
    assert.equal(reopenDelay(ends, 1), usual * 1.5)
  }
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { redialDelay } from './outage.ts'

const MINUTE_MS = 60_000

test('the first seconds of an outage are dialled every tenth of a second, its first minutes every fifth, and later ones every second', () => {
  assert.deepEqual(
    [1, 2, 3, 4, 600].map(failures => redialDelay(failures, 0, 0.5)),
    [50, 100, 100, 100, 100],
  )
  assert.deepEqual(
    [1, 2, 3, 4, 600].map(failures => redialDelay(failures, 3_000, 0.5)),
    [50, 100, 200, 200, 200],
  )
  assert.equal(redialDelay(600, MINUTE_MS, 0.5), 200)
  assert.equal(redialDelay(2_000, 3 * MINUTE_MS, 0.5), 360)
  assert.equal(redialDelay(1e6, 600 * MINUTE_MS, 0.5), 1_000)
})

test('chance moves it by a fifth either way, and never over a quarter of a second while the outage is short', () => {
  assert.equal(redialDelay(9, 3_000, 0), 160)
  assert.ok(redialDelay(9, 3_000, 0.999_999) < 250)
})

/** Simulated: each delay follows the failure of the one before at once, as a refused connection fails. */
test('an outage of an hour costs the CA at most 5,600 connections of a node, and one of a minute 400', () => {
  const dials = (outageMs: number) => {
    let count = 0
    for (let at = 0; at < outageMs; at += redialDelay(count, at, 0)) count++
    return count
  }
  assert.ok(dials(MINUTE_MS) <= 400, String(dials(MINUTE_MS)))
  assert.ok(dials(60 * MINUTE_MS) <= 5_600, String(dials(60 * MINUTE_MS)))
})

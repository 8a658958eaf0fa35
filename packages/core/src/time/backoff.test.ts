import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoff } from './backoff.ts'

test('the wait doubles from half a second to 150 s, each ±20 %', () => {
  const retry = { minMs: 500, maxMs: 150_000 }
  assert.deepEqual(
    [1, 2, 3, 9, 10, 1_000].map(failures => backoff(failures, retry, 0.5)),
    [500, 1_000, 2_000, 128_000, 150_000, 150_000],
  )
  assert.equal(backoff(1, retry, 0), 400)
  assert.ok(backoff(1, retry, 0.999) <= 600)
})

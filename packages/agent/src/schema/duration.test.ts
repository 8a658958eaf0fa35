import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatDuration, parseDuration } from './duration.ts'

test('durations are read in the units that people write', () => {
  assert.equal(parseDuration('500ms'), 500)
  assert.equal(parseDuration('5s'), 5_000)
  assert.equal(parseDuration('30m'), 1_800_000)
  assert.equal(parseDuration('24h'), 86_400_000)
  assert.equal(parseDuration('90d'), 7_776_000_000)
  assert.equal(parseDuration('0s'), 0)
})

test("Go's form with several units and fractions is read, since Istio's variables are in it", () => {
  assert.equal(parseDuration('24h0m0s'), 86_400_000)
  assert.equal(parseDuration('1h30m'), 5_400_000)
  assert.equal(parseDuration('1.5h'), 5_400_000)
})

test('an invalid duration is refused', () => {
  for (const text of ['', '24', '-5s', '5 s', '5sec', 's', '1e3s', '١s', '5s\n', 'Infinitys', `${'9'.repeat(400)}s`]) {
    assert.equal(parseDuration(text), undefined, JSON.stringify(text))
  }
})

test('a duration is written in its largest whole unit up to hours, and read back', () => {
  for (const text of ['0ms', '1ms', '500ms', '1500ms', '10s', '150s', '5m', '1h', '24h', '36h']) {
    const ms = parseDuration(text) ?? Number.NaN
    assert.equal(formatDuration(ms), text)
  }
})

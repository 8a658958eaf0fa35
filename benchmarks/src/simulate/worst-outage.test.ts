import assert from 'node:assert/strict'
import { test } from 'node:test'
import { leastSafeTtl, worstOutageStart } from './worst-outage.ts'

const HOUR = 3_600_000

test('where nothing can be lost, the outage ends with the last renewal due', () => {
  assert.equal(worstOutageStart(24 * HOUR, HOUR), 13.4 * HOUR)
})

test('an outage as long as the lifetime hurts most from the first renewal on', () => {
  assert.equal(worstOutageStart(HOUR, HOUR), 0.4 * HOUR)
})

test('in between it begins when many have not renewed and none has time left', () => {
  const start = worstOutageStart(2 * HOUR, HOUR)
  assert.ok(start > HOUR && start < 1.2 * HOUR, `${start / HOUR} h`)
})

test('two fifths of the lifetime are what an outage may take', () => {
  assert.equal(leastSafeTtl(HOUR), 2.5 * HOUR)
})

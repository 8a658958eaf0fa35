import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { FloodLimit } from './flood-limit.ts'

test('fifty lines of a kind pass in ten seconds, and the others are told as a number at their end', async () => {
  const clock = new FakeClock()
  const summaries: [string, number][] = []
  using limit = new FloodLimit(clock, (kind, suppressed) => summaries.push([kind, suppressed]))
  const passed = Array.from({ length: 120 }, () => limit.allow('nacked')).filter(Boolean)
  assert.equal(passed.length, 50)
  assert.equal(limit.allow('issued'), true)
  assert.deepEqual(summaries, [])
  await clock.advance(10_000)
  assert.deepEqual(summaries, [['nacked', 70]])
  assert.equal(limit.allow('nacked'), true)
})

test('closed, it waits for nothing any more', () => {
  const clock = new FakeClock()
  const limit = new FloodLimit(clock, () => assert.fail('it told something'))
  for (let line = 0; line < 60; line++) limit.allow('x')
  limit[Symbol.dispose]()
  assert.deepEqual(clock.deadlines(), [])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { LogRate } from './log-rate.ts'

test('fifty lines of a kind pass in ten seconds, and at the end the others are a number, at their own level', async () => {
  const clock = new FakeClock()
  const summaries: [string, number, string][] = []
  using limit = new LogRate(clock, (...summary) => summaries.push(summary))
  const passed = Array.from({ length: 120 }, () => limit.allow('nacked', 'warn')).filter(Boolean)
  assert.equal(passed.length, 50)
  assert.equal(limit.allow('issued', 'info'), true)
  assert.deepEqual(summaries, [])
  await clock.advance(10_000)
  assert.deepEqual(summaries, [['nacked', 70, 'warn']])
  assert.equal(limit.allow('nacked', 'warn'), true)
})

test('a flood at one level leaves its room to lines of the same kind at another level', async () => {
  const clock = new FakeClock()
  const summaries: [string, number, string][] = []
  using limit = new LogRate(clock, (...summary) => summaries.push(summary))
  for (let line = 0; line < 1_000; line++) limit.allow('withdrawn', 'info')
  assert.equal(limit.allow('withdrawn', 'warn'), true)
  await clock.advance(10_000)
  assert.deepEqual(summaries, [['withdrawn', 950, 'info']])
})

test('closed, it waits for nothing any more', () => {
  const clock = new FakeClock()
  const limit = new LogRate(clock, () => assert.fail('it reported something'))
  for (let line = 0; line < 60; line++) limit.allow('x', 'info')
  limit[Symbol.dispose]()
  assert.deepEqual(clock.deadlines(), [])
})

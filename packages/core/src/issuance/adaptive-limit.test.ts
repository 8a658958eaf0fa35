import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AdaptiveLimit } from './adaptive-limit.ts'

test('it starts low, and a CA that keeps up gets one more for each answer, up to the bound', () => {
  const limit = new AdaptiveLimit(32)
  assert.equal(limit.current, 4)
  for (let answer = 0; answer < 5; answer++) limit.answered(0, 10)
  assert.equal(limit.current, 9)
  for (let answer = 0; answer < 100; answer++) limit.answered(0, 10)
  assert.equal(limit.current, 32)
})

test('after it was too much once, a CA that keeps up gets one more a round', () => {
  const limit = new AdaptiveLimit(32)
  for (let answer = 0; answer < 100; answer++) limit.answered(0, 10)
  limit.overloaded(100, 200)
  assert.equal(limit.current, 16)
  for (let answer = 0; answer < 17; answer++) limit.answered(200, 210)
  assert.equal(limit.current, 17)
})

test('a CA that says "too much" gets half, once for all that was under way', () => {
  const limit = new AdaptiveLimit(64)
  for (let answer = 0; answer < 5_000; answer++) limit.answered(0, 10)
  for (let request = 0; request < 50; request++) limit.overloaded(100, 200)
  assert.equal(limit.current, 32)
  limit.overloaded(201, 300)
  assert.equal(limit.current, 16)
})

test('it never falls below one, and rises again', () => {
  const limit = new AdaptiveLimit(8)
  for (let time = 0; time < 20; time++) limit.overloaded(time * 10 + 1, time * 10 + 5)
  assert.equal(limit.current, 1)
  for (let answer = 0; answer < 100; answer++) limit.answered(1_000, 1_010)
  assert.equal(limit.current, 8)
})

test('answers that take much longer than the quickest say that requests queue up at the CA', () => {
  const limit = new AdaptiveLimit(64)
  for (let answer = 0; answer < 1_000; answer++) limit.answered(0, 50)
  const before = limit.current
  limit.answered(1_000, 1_500)
  assert.ok(limit.current <= before / 2)
})

test('a CA that became slower for good is not held back for ever', () => {
  const limit = new AdaptiveLimit(16)
  limit.answered(0, 30)
  for (let answer = 1; answer <= 400; answer++) limit.answered(answer * 1_000, answer * 1_000 + 500)
  assert.equal(limit.current, 16)
})

test('refusals of single requests open it again, and slow ones do not', () => {
  const limit = new AdaptiveLimit(8)
  for (let time = 0; time < 5; time++) limit.overloaded(time * 10 + 1, time * 10 + 5)
  limit.answered(1_000, 1_020)
  const before = limit.current
  for (let refusal = 0; refusal < 100; refusal++) limit.refused(1_000, 1_500)
  assert.equal(limit.current, before)
  for (let refusal = 0; refusal < 100; refusal++) limit.refused(1_000, 1_010)
  assert.equal(limit.current, 8)
})

test('a CA that refuses at once is not slow when it takes its time to sign', () => {
  const limit = new AdaptiveLimit(16)
  for (let answer = 0; answer < 100; answer++) {
    limit.refused(answer * 1_000, answer * 1_000 + 2)
    limit.answered(answer * 1_000, answer * 1_000 + 300)
  }
  assert.equal(limit.current, 16)
})

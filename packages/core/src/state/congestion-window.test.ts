import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CongestionWindow } from './congestion-window.ts'

test('the window starts low, and grows by one for each answer of a responsive CA, up to the bound', () => {
  const window = new CongestionWindow(32)
  assert.equal(window.current, 4)
  for (let answer = 0; answer < 5; answer++) window.granted(0, 10)
  assert.equal(window.current, 9)
  for (let answer = 0; answer < 100; answer++) window.granted(0, 10)
  assert.equal(window.current, 32)
})

test('after one overload, the window of a responsive CA grows by one per round', () => {
  const window = new CongestionWindow(32)
  for (let answer = 0; answer < 100; answer++) window.granted(0, 10)
  window.overloaded(100, 200)
  assert.equal(window.current, 16)
  for (let answer = 0; answer < 17; answer++) window.granted(200, 210)
  assert.equal(window.current, 17)
})

test('a CA that says "too much" gets half, once for all that was under way', () => {
  const window = new CongestionWindow(64)
  for (let answer = 0; answer < 5_000; answer++) window.granted(0, 10)
  for (let request = 0; request < 50; request++) window.overloaded(100, 200)
  assert.equal(window.current, 32)
  window.overloaded(201, 300)
  assert.equal(window.current, 16)
})

test('it never falls below one, and rises again', () => {
  const window = new CongestionWindow(8)
  for (let time = 0; time < 20; time++) window.overloaded(time * 10 + 1, time * 10 + 5)
  assert.equal(window.current, 1)
  for (let answer = 0; answer < 100; answer++) window.granted(1_000, 1_010)
  assert.equal(window.current, 8)
})

test('answers that take much longer than the quickest say that requests queue up at the CA', () => {
  const window = new CongestionWindow(64)
  for (let answer = 0; answer < 1_000; answer++) window.granted(0, 50)
  const before = window.current
  window.granted(1_000, 1_500)
  assert.ok(window.current <= before / 2)
})

test('a CA that became slower for good is not held back for ever', () => {
  const window = new CongestionWindow(16)
  window.granted(0, 30)
  for (let answer = 1; answer <= 400; answer++) window.granted(answer * 1_000, answer * 1_000 + 500)
  assert.equal(window.current, 16)
})

test('refusals of single requests open it again, and slow ones do not', () => {
  const window = new CongestionWindow(8)
  for (let time = 0; time < 5; time++) window.overloaded(time * 10 + 1, time * 10 + 5)
  window.granted(1_000, 1_020)
  const before = window.current
  for (let refusal = 0; refusal < 100; refusal++) window.refused(500)
  assert.equal(window.current, before)
  for (let refusal = 0; refusal < 100; refusal++) window.refused(10)
  assert.equal(window.current, 8)
})

test('a CA that refuses at once is not slow when it takes its time to sign', () => {
  const window = new CongestionWindow(16)
  for (let answer = 0; answer < 100; answer++) {
    window.refused(2)
    window.granted(answer * 1_000, answer * 1_000 + 300)
  }
  assert.equal(window.current, 16)
})

test('answers that waited unread while this process was busy are not slow', () => {
  const window = new CongestionWindow(64)
  for (let answer = 0; answer < 1_000; answer++) window.granted(0, 10)
  for (let answer = 1; answer < 100; answer++) window.granted(answer * 1_000, answer * 1_000 + 900, 20)
  assert.equal(window.current, 64)
})

test('after an outage it starts again, and neither late answers nor a slower CA hold it back', () => {
  const window = new CongestionWindow(64)
  for (let answer = 0; answer < 100; answer++) window.granted(0, 5)
  window.overloaded(100, 200)
  window.restart(10_000)
  window.granted(8_000, 10_000)
  window.granted(8_500, 10_000)
  for (let answer = 0; answer < 100; answer++) window.granted(10_001, 10_301)
  assert.equal(window.current, 64)
})

test('a CA that says "too much" after the clock was set back gets half', () => {
  const window = new CongestionWindow(64)
  for (let now = 0; now < 10; now++) window.granted(now, now + 1)
  window.overloaded(3_600_000, 3_600_001)
  const before = window.current
  window.clockSetBack(3_600_000)
  window.overloaded(2, 3)
  assert.equal(window.current, Math.floor(before / 2))
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clockDifference, clockText } from './ca-clock.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const NOW = Date.UTC(2026, 0, 1, 3)

/** A certificate that a CA signs now and back-dates; its clock is ahead by `aheadMs`. */
function textOf(aheadMs: number, { backdateMs = 2 * MINUTE, keptMs = HOUR } = {}): string | undefined {
  const signed = NOW + aheadMs
  const dates = { notBefore: signed - backdateMs, notAfter: signed + keptMs }
  const found = clockDifference(dates, { at: NOW, ttlMs: HOUR })
  return found && clockText(found)
}

test('the end of a certificate whose CA kept to the lifetime shows the difference, whatever the back-dating', () => {
  const ahead = "the clocks of this node and of the CA differ by 10 minutes: this node's is ahead"
  assert.equal(textOf(-10 * MINUTE), ahead)
  assert.equal(textOf(-10 * MINUTE + 1_400, { backdateMs: 5 * MINUTE }), ahead)
  assert.equal(textOf(45_000), "the clocks of this node and of the CA differ by 45 seconds: the CA's is ahead")
  assert.equal(textOf(-5 * HOUR), "the clocks of this node and of the CA differ by 5 hours: this node's is ahead")
})

test('a CA that gives another lifetime, or back-dates by an unknown time, shows a lower bound', () => {
  const rest = "this node's is ahead"
  assert.equal(
    textOf(-12 * MINUTE, { keptMs: 30 * MINUTE }),
    `the clocks of this node and of the CA differ by at least 9 minutes: ${rest}`,
  )
  assert.match(textOf(-12 * MINUTE, { backdateMs: 0 }) ?? '', /by at least 7 minutes/)
})

test('clocks agree where the back-dating, or the way of the answer, explains the difference', () => {
  for (const ms of [0, 20_000, -50_000]) assert.equal(textOf(ms), undefined, `${ms}`)
  assert.equal(textOf(0, { keptMs: 30 * MINUTE, backdateMs: 5 * MINUTE }), undefined)
})

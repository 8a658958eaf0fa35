/** The plot of a scenario: its unit of time, and the capacity of each CA. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { summarise } from './rates.ts'
import { plotLoad } from './report.ts'
import type { Row } from './scenarios.ts'

function row(variant: string, seconds: number, capacity: number, lifetimeS?: number): Row {
  const callsBySecond = new Float64Array(seconds).fill(3)
  const calls = summarise(callsBySecond)
  const service = {
    allServedAfterS: 1,
    neverServed: 0,
    worstRemainingS: 1,
    lapsed: 0,
    lapsedIdentitySeconds: 0,
  }
  const measured = {
    calls,
    signed: calls,
    capacity,
    refused: 0,
    latencyS: { p50: 0, p99: 0, max: 0 },
    service,
    callsBySecond,
  }
  return { variant, measured, notes: [], ...(lifetimeS !== undefined && { lifetimeS }) }
}

test('one CA has one level, and each of several is named by its variant', () => {
  const one = plotLoad('a title', 'a fleet', [row('a', 100, 50), row('b', 100, 50)])
  assert.match(one, />the CA signs 50 a second</)
  const two = plotLoad('a title', 'a fleet', [row('a', 100, 50), row('b', 100, 900)])
  assert.match(two, />the CA of &quot;a&quot; signs 50 a second<.*>the CA of &quot;b&quot; signs 900 a second</s)
})

test('the unit of time follows the longest row, and is the lifetime where each row has its own', () => {
  assert.match(plotLoad('a title', 'a fleet', [row('a', 100, 50)]), />seconds since/)
  assert.match(plotLoad('a title', 'a fleet', [row('a', 100, 50), row('b', 9_000, 50)]), />hours since/)
  const scaled = plotLoad('a title', 'a fleet', [row('a', 240, 50, 60), row('b', 14_400, 50, 3_600)])
  assert.match(scaled, />lifetimes since/)
  assert.match(scaled, />4</)
  assert.doesNotMatch(scaled, />240</)
})

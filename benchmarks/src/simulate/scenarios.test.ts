import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rotation, type ScenarioSettings } from './scenarios.ts'

const HOUR = 3_600_000
const small: ScenarioSettings = {
  nodes: 20,
  identities: 5,
  ttlMs: undefined,
  replicas: 2,
  rate: 50,
  queue: 100,
  retryAfterMs: undefined,
  roundTripMs: 2,
  callTimeoutMs: 10_000,
  bootWithinMs: 1_000,
  skewMs: 0,
  outageMs: HOUR,
  days: 30,
  sample: 2,
  names: 'own',
  seed: 1,
}

for (const ttlMs of [24 * HOUR, 2 * HOUR])
  test(`with certificates of ${ttlMs / HOUR} h no node serves what another cannot verify, however it hears of roots; it did with 10 s`, async () => {
    const rows = await rotation({ ...small, ttlMs }, () => {})
    const [push, poll, oldPoll, none, oldNone] = rows.map(({ unverifiableS }) => unverifiableS ?? Number.NaN)
    assert.deepEqual([push, poll, none], [0, 0, 0])
    assert.ok(oldPoll !== undefined && oldPoll > 60, `polled: ${oldPoll} s`)
    assert.ok(oldNone !== undefined && oldNone > 60, `none: ${oldNone} s`)
    for (const { measured } of rows) assert.equal(measured.service.lapsed, 0)
  })

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LedgerEvent } from './agent-event.ts'
import { Ledger } from './ledger.ts'

const issued = (serial: number): LedgerEvent => ({ kind: 'issued', serialNumber: `${serial}`, notAfter: 0, renewAt: 0 })

test('the last 32 events of a name are kept, oldest first', () => {
  const ledger = new Ledger(() => true)
  for (let time = 0; time < 100; time++) ledger.record('a', { time, event: issued(time) })
  assert.equal(ledger.entries('a').length, 32)
  assert.equal(ledger.entries('a')[0]?.time, 68)
})

test('an event of a thousand streams at once is counted, and does not displace its cause', () => {
  const ledger = new Ledger(() => true)
  ledger.record('a', { time: 0, event: { kind: 'ca-error', code: 'unavailable', message: 'down' } })
  ledger.record('a', { time: 1, event: issued(1) })
  for (let stream = 0; stream < 1_000; stream++) {
    ledger.record('a', { time: 2, event: { kind: 'pushed', to: `node ${stream}`, version: 'v' } })
    ledger.record('a', { time: 3, event: { kind: 'acked', by: `node ${stream}`, version: 'v' } })
  }
  assert.deepEqual(
    ledger.entries('a').map(({ event, count }) => [event.kind, count]),
    [
      ['ca-error', undefined],
      ['issued', undefined],
      ['pushed', 1_000],
      ['acked', 1_000],
    ],
  )
})

test('a CA that fails on and on is one line with its count, and another error a new one', () => {
  const ledger = new Ledger(() => true)
  for (let time = 0; time < 10; time++) {
    ledger.record('a', { time, event: { kind: 'csr-sent', reason: 'renewal' } })
    ledger.record('a', { time, event: { kind: 'ca-error', code: 'unavailable', message: 'down' } })
    ledger.record('a', { time, event: { kind: 'retry-planned', at: time } })
  }
  ledger.record('a', { time: 11, event: { kind: 'ca-error', code: 'denied', message: 'no' } })
  assert.deepEqual(
    ledger.entries('a').map(({ event, count, time }) => [event.kind, count, time]),
    [
      ['csr-sent', 10, 9],
      ['ca-error', 10, 9],
      ['retry-planned', 10, 9],
      ['ca-error', undefined, 11],
    ],
  )
})

test('an event that comes again is listed by its last time', () => {
  const ledger = new Ledger(() => true)
  for (const time of [0, 3]) ledger.record('a', { time, event: { kind: 'asked', by: 'x' } })
  ledger.record('a', { time: 4, event: { kind: 'pushed', to: 'x', version: 'v' } })
  ledger.record('a', { time: 5, event: { kind: 'asked', by: 'y' } })
  assert.deepEqual(
    ledger.entries('a').map(({ time, count }) => [time, count]),
    [
      [4, undefined],
      [5, 3],
    ],
  )
})

test('of names that are not held the 1,000 recorded last are kept, and they push out no held one', () => {
  const ledger = new Ledger(name => name === 'held')
  ledger.record('held', { time: 0, event: issued(1) })
  for (let index = 0; index < 2_000; index++) {
    ledger.record(`n${index}`, { time: 0, event: { kind: 'asked', by: 'x' } })
  }
  assert.equal(ledger.entries('held').length, 1)
  assert.deepEqual(ledger.entries('n999'), [])
  assert.equal(ledger.entries('n1000').length, 1)
})

test('a released name keeps its history for a while, and continues it', () => {
  let isHeld = true
  const ledger = new Ledger(() => isHeld)
  ledger.record('a', { time: 0, event: issued(1) })
  isHeld = false
  ledger.record('a', { time: 1, event: { kind: 'withdrawn', reason: 'evicted' } })
  assert.equal(ledger.entries('a').length, 2)
  isHeld = true
  ledger.record('a', { time: 2, event: issued(2) })
  assert.equal(ledger.entries('a').length, 3)
})

test('a released name counts as an unknown name from its last event on', () => {
  const held = new Set(['a'])
  const ledger = new Ledger(name => held.has(name))
  ledger.record('a', { time: 0, event: issued(1) })
  held.delete('a')
  ledger.record('a', { time: 1, event: { kind: 'withdrawn', reason: 'forgotten' } })
  for (let index = 0; index < 1_000; index++) ledger.record(`n${index}`, { time: 2, event: { kind: 'asked', by: 'x' } })
  assert.deepEqual(ledger.entries('a'), [])
})

test('two renewals are two stories, though they read the same', () => {
  const ledger = new Ledger(() => true)
  for (let serial = 1; serial <= 2; serial++) {
    ledger.record('a', { time: serial, event: { kind: 'csr-sent', reason: 'renewal' } })
    ledger.record('a', { time: serial, event: issued(serial) })
  }
  assert.deepEqual(
    ledger.entries('a').map(({ event }) => event.kind),
    ['csr-sent', 'issued', 'csr-sent', 'issued'],
  )
})

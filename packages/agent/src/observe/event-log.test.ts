import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { pino } from 'pino'
import { everyScope, type LogLevel } from '../schema/log-level.ts'
import type { AgentEvent, LedgerEvent } from './agent-event.ts'
import { EventLog } from './event-log.ts'
import { LogScopes } from './log-scopes.ts'

interface Line {
  readonly level: number
  readonly event: string
  readonly msg: string
  readonly [field: string]: unknown
}

interface Bench extends Disposable {
  readonly scopes: LogScopes
  readonly log: EventLog
  readonly lines: Line[]
  readonly clock: FakeClock
}

function bench(level: LogLevel = 'info'): Bench {
  const lines: Line[] = []
  const logger = pino({ level, base: null }, { write: (text: string) => lines.push(JSON.parse(text)) })
  const clock = new FakeClock()
  const scopes = new LogScopes(logger, everyScope(level))
  const log = new EventLog(scopes, clock)
  return { scopes, log, lines, clock, [Symbol.dispose]: () => log[Symbol.dispose]() }
}

function record(log: EventLog, name: string, event: LedgerEvent): void {
  log.write(event, name)
}

const OUTAGE: LedgerEvent = { kind: 'ca-error', code: 'unavailable', message: 'Cannot reach the CA.' }
const ISSUED: LedgerEvent = { kind: 'issued', serialNumber: 'AB', notAfter: 1_000, renewAt: 500 }

test('an outage of the CA is one line for a name when it begins and one when it ends', () => {
  using at = bench()
  for (let failure = 0; failure < 20; failure++) record(at.log, 'spiffe://a/b', OUTAGE)
  record(at.log, 'spiffe://a/b', ISSUED)
  record(at.log, 'spiffe://a/b', OUTAGE)
  assert.deepEqual(
    at.lines.map(({ level, event }) => [level, event]),
    [
      [40, 'ca-error'],
      [30, 'issued'],
      [40, 'ca-error'],
    ],
  )
})

test('another kind of error is logged while the first one persists', () => {
  using at = bench()
  record(at.log, 'spiffe://a/b', OUTAGE)
  record(at.log, 'spiffe://a/b', { kind: 'ca-error', code: 'denied', message: 'Cannot issue.' })
  assert.deepEqual(
    at.lines.map(line => line['code']),
    ['unavailable', 'denied'],
  )
})

test('a line has the resource, fields to filter by, times as ISO 8601, and a sentence', () => {
  using at = bench()
  record(at.log, 'spiffe://a/b', ISSUED)
  const { level: _, time: __, ...line } = at.lines[0] ?? assert.fail()
  assert.deepEqual(line, {
    scope: 'ca',
    event: 'issued',
    resource: 'spiffe://a/b',
    serialNumber: 'AB',
    notAfter: '1970-01-01T00:00:01.000Z',
    renewAt: '1970-01-01T00:00:00.500Z',
    msg: 'issued: serial AB, valid until 1970-01-01T00:00:01.000Z, renewal planned for 1970-01-01T00:00:00.500Z',
  })
})

test('traffic of streams is for debug, and a flood of rejections is cut', () => {
  using at = bench()
  record(at.log, 'n', { kind: 'pushed', to: 'x', version: 'v' })
  record(at.log, 'n', { kind: 'acked', by: 'x', version: 'v' })
  record(at.log, 'n', { kind: 'asked', by: 'x' })
  assert.equal(at.lines.length, 0)
  for (let nack = 0; nack < 1_000; nack++) {
    record(at.log, 'n', { kind: 'nacked', by: 'x', version: 'v', detail: 'no' })
  }
  assert.equal(at.lines.length, 50)
})

test('at debug the flood limit holds for every kind of line', () => {
  using at = bench('debug')
  for (let push = 0; push < 1_000; push++) {
    record(at.log, 'n', { kind: 'pushed', to: 'x', version: 'v' })
    record(at.log, 'n', { kind: 'acked', by: 'x', version: 'v' })
  }
  assert.equal(at.lines.length, 2 * 50)
})

test('security events are written at every level, within the flood limit', () => {
  for (const level of ['silent', 'fatal', 'error', 'info', 'debug'] as const) {
    using at = bench(level)
    const connection = { id: 1, socket: '/run/a.sock', caller: { pid: 7, uid: 8, gid: 9 } }
    const count = at.lines.length
    at.log.write({ kind: 'connection-refused', connection, reason: 'not-allowed' })
    at.log.write({ kind: 'stream-refused', connection, method: 'StreamSecrets', bound: 'caller' })
    record(at.log, 'n', { kind: 'refused', by: 'x', reason: 'no rule' })
    record(at.log, 'n', { kind: 'no-room', maxIdentities: 5 })
    record(at.log, 'n', { kind: 'ca-error', code: 'bad-response', message: 'The fingerprint is another.' })
    record(at.log, 'n', { kind: 'ca-error', code: 'bad-response', message: 'The key is another.' })
    record(at.log, 'n', { kind: 'roots-changed', version: 'v', roots: 2 })
    at.log.write({ kind: 'caller-slowed', socket: '/run/a.sock', caller: 'uid 8', streams: 3 })
    at.log.write({ kind: 'log-level-changed', from: 'info', to: level })
    assert.deepEqual(
      at.lines.slice(count).map(line => line['channel']),
      Array(9).fill('security'),
      level,
    )
    for (let refusal = 0; refusal < 1_000; refusal++)
      record(at.log, 'n', { kind: 'refused', by: 'x', reason: 'no rule' })
    assert.equal(at.lines.filter(({ event }) => event === 'refused').length, 50)
  }
})

test('an event is a warning only if something is wrong', () => {
  using at = bench()
  const path = '/run/a.sock'
  const error = new Error('x')
  const events: readonly AgentEvent[] = [
    { kind: 'withdrawn', reason: 'expired' },
    { kind: 'withdrawn', reason: 'forgotten' },
    { kind: 'withdrawn', reason: 'idle' },
    { kind: 'withdrawn', reason: 'evicted' },
    { kind: 'crl-changed', lists: 1, uncovered: ['f'] },
    { kind: 'crl-changed', lists: 1, uncovered: [] },
    { kind: 'socket-waiting', path, error },
    { kind: 'socket-waiting', path, error, isHandover: true },
  ]
  for (const event of events) at.log.write(event)
  assert.deepEqual(
    at.lines.map(({ level }) => level),
    [40, 30, 30, 30, 40, 30, 50, 30],
  )
})

test('a thousand identities that are forgotten do not hide the one whose certificate ended', async () => {
  using at = bench()
  for (let index = 0; index < 1_000; index++) record(at.log, `sa-${index}`, { kind: 'withdrawn', reason: 'forgotten' })
  record(at.log, 'web', { kind: 'withdrawn', reason: 'expired' })
  const last = at.lines.at(-1)
  assert.deepEqual([last?.level, last?.['resource'], at.lines.length], [40, 'web', 51])
  await at.clock.advance(10_000)
  const summary = at.lines.at(-1)
  assert.deepEqual([summary?.level, summary?.event, summary?.['suppressed']], [30, 'withdrawn', 950])
})

test('refused names without a separate line count as lines that were kept out', async () => {
  using at = bench()
  const connection = { id: 1, socket: '/run/a.sock', caller: { pid: 7, uid: 8, gid: 9 } }
  for (let refusal = 0; refusal < 100; refusal++) {
    record(at.log, 'n', { kind: 'refused', by: 'x', reason: 'no rule' })
    at.log.write({ kind: 'refused-unnamed', connection })
  }
  await at.clock.advance(10_000)
  assert.equal(at.lines.length, 51)
  const summary = at.lines.at(-1)
  assert.deepEqual([summary?.event, summary?.['suppressed'], summary?.['channel']], ['refused', 150, 'security'])
})

test('other lines follow the level', () => {
  using at = bench('silent')
  record(at.log, 'n', ISSUED)
  record(at.log, 'n', OUTAGE)
  assert.equal(at.lines.length, 0)
})

test('a caller that was not identified is logged with what was found instead', () => {
  using at = bench()
  const connection = { id: 1, socket: '/run/a.sock', caller: { pid: 7, uid: 8, gid: 9 } }
  at.log.write({ kind: 'connection-refused', connection, reason: 'unidentified', detail: 'process 7 is in no pod' })
  at.log.write({
    kind: 'connection-refused',
    connection: { ...connection, subject: 'pod 1' },
    reason: 'unknown-caller',
  })
  assert.deepEqual(
    at.lines.map(line => [line['reason'], line['detail'], line['subject']]),
    [
      ['unidentified', 'process 7 is in no pod', undefined],
      ['unknown-caller', undefined, 'pod 1'],
    ],
  )
})

test('an event is a line where the level of its scope allows it, whatever the levels of other scopes are', () => {
  using at = bench('warn')
  const asked: LedgerEvent = { kind: 'asked', by: 'pid 1' }
  const sent: LedgerEvent = { kind: 'csr-sent', reason: 'renewal' }
  for (const event of [asked, sent, ISSUED]) record(at.log, 'spiffe://a/b', event)
  assert.deepEqual(at.lines, [])
  at.scopes.change({ sds: 'debug' })
  for (const event of [asked, sent, ISSUED]) record(at.log, 'spiffe://a/b', event)
  at.scopes.change({ sds: 'warn', ca: 'info' })
  for (const event of [asked, sent, ISSUED]) record(at.log, 'spiffe://a/b', event)
  assert.deepEqual(
    at.lines.map(({ event, scope }) => [event, scope]),
    [
      ['asked', 'sds'],
      ['issued', 'ca'],
    ],
  )
})

test('a security event is a line of its scope where that is silent', () => {
  using at = bench()
  at.scopes.change(everyScope('silent'))
  record(at.log, 'spiffe://a/b', { kind: 'roots-changed', version: 'v', roots: 1 })
  record(at.log, 'spiffe://a/b', ISSUED)
  assert.deepEqual(
    at.lines.map(({ event, scope, channel }) => [event, scope, channel]),
    [['roots-changed', 'trust', 'security']],
  )
})

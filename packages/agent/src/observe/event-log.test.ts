import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { pino } from 'pino'
import { everyScope, type LogLevel } from '../schema/log-level.ts'
import { EventLog } from './event-log.ts'
import type { LedgerEvent } from './ledger.ts'
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
  log.ledger(name, { time: 0, event })
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
    at.log.sds({ kind: 'connection-refused', connection, reason: 'not-allowed' })
    at.log.sds({ kind: 'stream-refused', connection, method: 'StreamSecrets', bound: 'caller' })
    record(at.log, 'n', { kind: 'refused', by: 'x', reason: 'no rule' })
    record(at.log, 'n', { kind: 'no-room', maxIdentities: 5 })
    record(at.log, 'n', { kind: 'ca-error', code: 'bad-response', message: 'The fingerprint is another.' })
    record(at.log, 'n', { kind: 'ca-error', code: 'bad-response', message: 'The key is another.' })
    record(at.log, 'n', { kind: 'roots-changed', version: 'v', roots: 2 })
    at.log.sds({ kind: 'caller-slowed', socket: '/run/a.sock', caller: 'uid 8', streams: 3 })
    at.log.admin('log-level-changed', { to: level }, 'changed')
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

test('an event that says that something succeeded is never a warning', () => {
  using at = bench('debug')
  const certificate = { serialNumber: 'AB', notAfter: 1_000, renewAt: 500 }
  const successes: readonly LedgerEvent[] = [
    { kind: 'csr-sent', reason: 'renewal' },
    ISSUED,
    { kind: 'restored', from: 'store', ...certificate },
    { kind: 'restored', from: 'bootstrap', ...certificate },
    { kind: 'ca-back', downSince: 0 },
    { kind: 'roots-changed', version: 'v', roots: 2 },
    { kind: 'root-phase', fingerprint: 'f', phase: 'trusted', reason: 'all clients have accepted it' },
    { kind: 'root-phase', fingerprint: 'f', phase: 'removed', reason: 'nothing needs it' },
    { kind: 'crl-changed', lists: 1, uncovered: [] },
    { kind: 'read-from-files', version: 'v' },
    { kind: 'removed', until: 1 },
    { kind: 'kept' },
    { kind: 'withdrawn', reason: 'forgotten' },
    { kind: 'withdrawn', reason: 'idle' },
    { kind: 'withdrawn', reason: 'evicted' },
    { kind: 'asked', by: 'x' },
    { kind: 'pushed', to: 'x', version: 'v' },
    { kind: 'acked', by: 'x', version: 'v' },
  ]
  for (const event of successes) record(at.log, 'n', event)
  for (const event of ['log-level-changed', 'renewal-requested', 'root-change'] as const)
    at.log.admin(event, {}, 'done')
  at.log.sds({ kind: 'socket-acquired', path: '/run/a.sock' })
  assert.equal(at.lines.length, successes.length + 4)
  assert.deepEqual(
    at.lines.filter(({ level }) => level > 30),
    [],
  )
  at.log.admin('renewal-refused', {}, 'refused')
  assert.equal(at.lines.at(-1)?.level, 40)
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

test('refused names without a line of their own are in the number of lines that were kept out', async () => {
  using at = bench()
  const connection = { id: 1, socket: '/run/a.sock', caller: { pid: 7, uid: 8, gid: 9 } }
  const stream = { id: 1, method: 'StreamSecrets', connection, node: '', names: 1, openedAt: 0 } as const
  for (let refusal = 0; refusal < 100; refusal++) {
    record(at.log, 'n', { kind: 'refused', by: 'x', reason: 'no rule' })
    at.log.sds({ kind: 'stream-report', stream, report: { kind: 'refused-unnamed' }, peer: 'x' })
    at.log.sds({ kind: 'stream-report', stream, report: { kind: 'stale' }, peer: 'x' })
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

test('a refused connection is logged with its peer and the reason', () => {
  using at = bench()
  const connection = { id: 1, socket: '/run/a.sock', caller: { pid: 7, uid: 8, gid: 9 } }
  at.log.sds({ kind: 'connection-refused', connection, reason: 'not-allowed' })
  at.log.sds({ kind: 'connection-opened', connection })
  const [line, ...others] = at.lines
  assert.deepEqual(others, [])
  assert.deepEqual([line?.level, line?.['uid'], line?.['socket']], [40, 8, '/run/a.sock'])
  assert.equal(line?.msg, 'connection refused: no rule under callers lets this caller in')
})

test('a caller that was not identified is logged with what was found instead', () => {
  using at = bench()
  const connection = { id: 1, socket: '/run/a.sock', caller: { pid: 7, uid: 8, gid: 9 } }
  at.log.sds({ kind: 'connection-refused', connection, reason: 'unidentified', detail: 'process 7 is in no pod' })
  at.log.sds({ kind: 'connection-refused', connection: { ...connection, subject: 'pod 1' }, reason: 'unknown-caller' })
  assert.deepEqual(
    at.lines.map(line => [line['reason'], line['detail'], line['subject']]),
    [
      ['unidentified', 'process 7 is in no pod', undefined],
      ['unknown-caller', undefined, 'pod 1'],
    ],
  )
})

test('opened and closed connections and streams are logged at level debug', () => {
  using at = bench('debug')
  const connection = { id: 1, socket: '/run/a.sock', caller: { pid: 7, uid: 8, gid: 9 } }
  const stream = { id: 2, method: 'StreamSecrets', connection, node: 'n', names: 1, openedAt: 0 } as const
  at.log.sds({ kind: 'connection-opened', connection })
  at.log.sds({ kind: 'stream-opened', stream })
  at.log.sds({ kind: 'stream-closed', stream, status: 14, details: 'the agent is shutting down' })
  at.log.sds({ kind: 'connection-closed', connection })
  assert.deepEqual(
    at.lines.map(({ level, event, msg }) => [level, event, msg]),
    [
      [20, 'connection-opened', 'a connection was opened'],
      [20, 'stream-opened', 'a stream was opened'],
      [20, 'stream-closed', 'a stream was closed'],
      [20, 'connection-closed', 'a connection was closed'],
    ],
  )
  const closed = at.lines[2]
  assert.deepEqual([closed?.['node'], closed?.['openedAt'], closed?.['status']], ['n', '1970-01-01T00:00:00.000Z', 14])
})

test('too few file descriptors, and a connection that was not accepted, are warnings with what to do', () => {
  using at = bench()
  at.log.sds({ kind: 'few-descriptors', available: 200, wanted: 10_000, message: 'Raise the limit with ulimit -n.' })
  at.log.sds({ kind: 'accept-failed', path: '/run/sds.sock', error: new Error('EMFILE') })
  assert.deepEqual(
    at.lines.map(({ level, msg }) => [level, msg]),
    [
      [40, 'Raise the limit with ulimit -n.'],
      [40, 'a connection was not accepted'],
    ],
  )
})

test('an event is a line where the level of its scope allows it, whatever that of the others is', () => {
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

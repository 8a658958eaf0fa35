/** docs/logs.md against the code: every event is in it, with the level and the fields of its line. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { FakeClock } from '@livery/core/testing'
import type { SdsEvent } from '@livery/sds-server'
import { EventLog } from '../src/observe/event-log.ts'
import type { LedgerEvent } from '../src/observe/ledger.ts'
import { ADMIN_LEVELS, isSecurityEvent, POD_EVENTS, scopeOf } from '../src/observe/log-events.ts'
import { LOG_SCOPES } from '../src/schema/log-level.ts'
import { type Line, memoryLog } from './memory-log.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const page = readFileSync(`${root}docs/logs.md`, 'utf8')

interface Row {
  readonly level: string
  readonly scope: string
  readonly fields: readonly string[]
  readonly about: string
}

const rows: ReadonlyMap<string, Row> = new Map(
  [...page.matchAll(/^\| `([a-z-]+)` \| (debug|info|warn|error) \| ([a-z]+) \| (.*?) ?\| (.*?) ?\|$/gm)].map(
    ([, event = '', level = '', scope = '', fields = '', about = '']) => [
      event,
      { level, scope, fields: [...fields.matchAll(/`(\w+)`/g)].map(([, name = '']) => name), about },
    ],
  ),
)

const AT = Date.parse('2026-11-22T12:00:00Z')

/** One of each kind, with every field that it can have. */
const LEDGER: { readonly [Kind in LedgerEvent['kind']]: Extract<LedgerEvent, { readonly kind: Kind }> } = {
  'csr-sent': { kind: 'csr-sent', reason: 'renewal' },
  issued: { kind: 'issued', serialNumber: 'AB', notAfter: AT, renewAt: AT },
  'ca-error': { kind: 'ca-error', code: 'denied', message: 'x', local: true },
  'retry-planned': { kind: 'retry-planned', at: AT },
  'ca-down': { kind: 'ca-down' },
  'ca-back': { kind: 'ca-back', downSince: AT },
  'shared-failure': { kind: 'shared-failure', failure: 'denied' },
  'shared-failure-over': { kind: 'shared-failure-over', failure: 'denied', since: AT },
  'ttl-lowered': { kind: 'ttl-lowered', fromSeconds: 2, toSeconds: 1 },
  held: { kind: 'held', until: AT, reason: 'root-announcing' },
  withdrawn: { kind: 'withdrawn', reason: 'idle' },
  restored: { kind: 'restored', from: 'store', serialNumber: 'AB', notAfter: AT, renewAt: AT },
  'not-restored': { kind: 'not-restored', reason: 'x' },
  'not-stored': { kind: 'not-stored', reason: 'x' },
  'preflight-failed': { kind: 'preflight-failed', reason: 'x', isServed: true },
  revoked: { kind: 'revoked', serialNumber: 'AB', reason: 'x' },
  'roots-changed': { kind: 'roots-changed', version: 'v', roots: 1 },
  'root-phase': { kind: 'root-phase', fingerprint: 'aa', phase: 'held', reason: 'x' },
  'roots-rejected': { kind: 'roots-rejected', source: 'f', count: 1, reason: 'x' },
  'roots-unavailable': { kind: 'roots-unavailable', source: 'f', reason: 'x' },
  'crl-changed': { kind: 'crl-changed', lists: 1, nextUpdate: AT, uncovered: [] },
  'crl-unavailable': { kind: 'crl-unavailable', source: 'f', reason: 'x' },
  'clock-jumped': { kind: 'clock-jumped', how: 'back', ms: 1 },
  removed: { kind: 'removed', until: AT },
  kept: { kind: 'kept' },
  'no-room': { kind: 'no-room', maxIdentities: 1 },
  'read-from-files': { kind: 'read-from-files', version: 'v', serialNumber: 'AB', notAfter: AT, skipped: 1 },
  'files-unusable': { kind: 'files-unusable', reason: 'x', isServed: true },
  ending: { kind: 'ending', notAfter: AT },
  asked: { kind: 'asked', by: 'x' },
  refused: { kind: 'refused', by: 'x', reason: 'y' },
  pushed: { kind: 'pushed', to: 'x', version: 'v' },
  acked: { kind: 'acked', by: 'x', version: 'v' },
  nacked: { kind: 'nacked', by: 'x', version: 'v', detail: 'y' },
}

const connection = { id: 1, socket: '/a.sock', caller: { pid: 1, uid: 2, gid: 3 }, subject: 'pod 1' }
const stream = { id: 1, method: 'StreamSecrets', connection, node: 'n', names: 1, openedAt: AT } as const
const path = '/a.sock'
const error = new Error('x')

/** Reports of streams have the kind of an event of the ledger. */
const SDS: {
  readonly [Kind in Exclude<SdsEvent['kind'], 'stream-report'>]: Extract<SdsEvent, { readonly kind: Kind }>
} = {
  'connection-opened': { kind: 'connection-opened', connection },
  'connection-closed': { kind: 'connection-closed', connection },
  'connection-refused': { kind: 'connection-refused', connection, reason: 'unidentified', detail: 'x' },
  'stream-opened': { kind: 'stream-opened', stream },
  'stream-closed': { kind: 'stream-closed', stream, status: 0, details: 'x' },
  'stream-refused': { kind: 'stream-refused', connection, method: 'StreamSecrets', bound: 'caller' },
  'stream-failed': { kind: 'stream-failed', stream, error },
  'caller-slowed': { kind: 'caller-slowed', socket: path, caller: 'uid 1', streams: 1 },
  'few-descriptors': { kind: 'few-descriptors', available: 1, wanted: 2, message: 'x' },
  'accept-failed': { kind: 'accept-failed', path, error },
  'socket-waiting': { kind: 'socket-waiting', path, error },
  'socket-acquired': { kind: 'socket-acquired', path },
  'socket-superseded': { kind: 'socket-superseded', path },
  'socket-recreated': { kind: 'socket-recreated', path },
  'socket-reclaimed': { kind: 'socket-reclaimed', path, from: 'x' },
  'socket-folder-unsafe': { kind: 'socket-folder-unsafe', path, error },
  'socket-unreachable': { kind: 'socket-unreachable', path, reason: 'x' },
  'socket-lost': { kind: 'socket-lost', path, error },
}

/** The lines that `write` makes. */
function lines(write: (log: EventLog) => void): readonly Line[] {
  const written: Line[] = []
  using log = new EventLog(memoryLog('debug', written), new FakeClock())
  write(log)
  return written
}

const COMMON: ReadonlySet<string> = new Set(['level', 'time', 'scope', 'event', 'msg', 'resource', 'channel'])

function compare(event: string, line: Line | undefined): void {
  const row = rows.get(event)
  assert.ok(row, `${event} is not in docs/logs.md`)
  assert.deepEqual([line?.['event'], line?.['level'], line?.['scope']], [event, row.level, row.scope])
  const fields = Object.keys(line ?? {}).filter(name => !COMMON.has(name))
  assert.deepEqual([...row.fields].sort(), fields.sort(), event)
  assert.equal(line?.['channel'] === 'security', row.about.endsWith('A security event'), event)
  // Milliseconds since the epoch have no place there.
  for (const name of fields) assert.ok(!(Number(line?.[name]) > 1e11), `${event}: ${name}`)
}

for (const [kind, event] of Object.entries(LEDGER))
  test(`${kind}: the page has its level and fields`, () => {
    const [line] = lines(log => log.ledger('spiffe://a/b', { time: AT, event }))
    assert.equal(line?.['resource'], 'spiffe://a/b')
    if (kind === 'ca-error') assert.match(rows.get(kind)?.about ?? '', /`bad-response` is a security event/)
    compare(kind, line)
  })

for (const [kind, event] of Object.entries(SDS))
  test(`${kind}: the page has its level and fields`, () => compare(kind, lines(log => log.sds(event))[0]))

test('the page has all events of the operator and of pods, and no other', () => {
  const all = [LEDGER, SDS, ADMIN_LEVELS].flatMap(events => Object.keys(events))
  assert.deepEqual([...rows.keys()].sort(), [...all, ...POD_EVENTS, 'log-lines-dropped'].sort())
  for (const event of POD_EVENTS) assert.equal(rows.get(event)?.scope, scopeOf(event), event)
  for (const [event, level] of Object.entries(ADMIN_LEVELS)) {
    assert.deepEqual([rows.get(event)?.level, rows.get(event)?.scope], [level, scopeOf(event)], event)
    assert.ok(isSecurityEvent(event), event)
  }
})

test('every other event that the sources name is in the page', () => {
  const files = globSync('packages/agent/src/**/*.ts', { cwd: root, exclude: file => file.endsWith('.test.ts') })
  const named = files.flatMap(file => [
    ...readFileSync(`${root}${file}`, 'utf8').matchAll(
      /[{,]\s*event: '([a-z-]+)'|\.(?:note\(\s*'\w+',|(?:security|admin)(?:\?\.)?\()\s*'([a-z-]+)'/g,
    ),
  ])
  const events = new Set(named.map(([, one, other = one]) => other))
  assert.ok(events.has('pods-away') && events.has('log-lines-dropped') && events.has('renewal-refused'))
  assert.deepEqual(
    [...events].filter(event => event !== undefined && !rows.has(event)),
    [],
  )
})

test('the page has every scope, and no other', () => {
  const [, section = ''] = /^## Scopes\n([\s\S]*?)^## /m.exec(page) ?? []
  const listed = [...section.matchAll(/^\| `([a-z]+)` \|/gm)].map(([, scope]) => scope)
  assert.deepEqual(listed, [...LOG_SCOPES])
})

test('the example is a line of the log', () => {
  const [, example = ''] = /```json\n(.*)\n```/.exec(page) ?? []
  const line: Readonly<Record<string, unknown>> = JSON.parse(example)
  assert.deepEqual(
    Object.keys(line).filter(name => !COMMON.has(name)),
    rows.get('issued')?.fields,
  )
})

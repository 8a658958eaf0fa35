/** docs/reference/logs.md against the code: every event is in it, with the level and the fields of its line. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { FakeClock } from '@livery/core/testing'
import type { AgentEvent, EventKind, EventOf } from '../src/observe/agent-event.ts'
import { EventLog } from '../src/observe/event-log.ts'
import { LOG_SCOPES } from '../src/schema/log-level.ts'
import { type Line, memoryLog } from './memory-log.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const page = readFileSync(`${root}docs/reference/logs.md`, 'utf8')

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

const connection = { id: 1, socket: '/a.sock', caller: { pid: 1, uid: 2, gid: 3 }, subject: 'pod 1' }
const stream = { id: 1, method: 'StreamSecrets', connection, node: 'n', names: 1, openedAt: AT } as const
const path = '/a.sock'
const error = new Error('x')
const message = 'x'
const pod = { pod: 'a/b', podUid: '1', identity: 'spiffe://a/b' }
const endpoint = { endpoint: 'admin', address: '127.0.0.1:1' } as const

/** One of each kind, with every field that it can have. */
const EVENTS: { readonly [Kind in EventKind]: EventOf<Kind> } = {
  'csr-sent': { kind: 'csr-sent', reason: 'renewal' },
  issued: { kind: 'issued', serialNumber: 'AB', notAfter: AT, renewAt: AT },
  'ca-error': { kind: 'ca-error', code: 'denied', message: 'x', local: true },
  'retry-planned': { kind: 'retry-planned', at: AT },
  'ca-down': { kind: 'ca-down' },
  'ca-back': { kind: 'ca-back', downSince: AT },
  'shared-failure': { kind: 'shared-failure', failure: 'denied' },
  'shared-failure-over': { kind: 'shared-failure-over', failure: 'denied', since: AT },
  'ttl-lowered': { kind: 'ttl-lowered', fromSeconds: 2, toSeconds: 1 },
  'life-too-short': { kind: 'life-too-short', lifetimeMs: 2, surviveMs: 3 },
  'served-later': { kind: 'served-later', until: AT, reason: 'root-announcing' },
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
  postponed: { kind: 'postponed', by: 'x', reason: 'y' },
  pushed: { kind: 'pushed', to: 'x', version: 'v' },
  acked: { kind: 'acked', by: 'x', version: 'v' },
  nacked: { kind: 'nacked', by: 'x', version: 'v', detail: 'y' },
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
  'refused-unnamed': { kind: 'refused-unnamed', connection },
  'endpoint-waiting': { kind: 'endpoint-waiting', ...endpoint, message },
  'endpoint-handover': { kind: 'endpoint-handover', ...endpoint, message },
  'endpoint-acquired': { kind: 'endpoint-acquired', ...endpoint },
  'admin-socket-disturbed': { kind: 'admin-socket-disturbed', event: 'socket-lost', path },
  'log-level-changed': { kind: 'log-level-changed', from: 'info', to: 'warn', by: 'x' },
  'log-level-refused': { kind: 'log-level-refused', from: 'info', to: 'error', uid: 1, message },
  'renewal-requested': { kind: 'renewal-requested', resource: 'spiffe://a/b', by: 'x' },
  'renewal-refused': { kind: 'renewal-refused', uid: 1, message },
  'root-change': { kind: 'root-change', action: 'hold', root: 'aa', by: 'x' },
  'root-change-refused': { kind: 'root-change-refused', action: 'hold', root: 'aa', uid: 1, message },
  'pods-known': { kind: 'pods-known', known: 1, chosen: 1 },
  'pods-unknown': { kind: 'pods-unknown', message },
  'pods-away': { kind: 'pods-away', message },
  'pod-added': { kind: 'pod-added', ...pod },
  'pod-changed': { kind: 'pod-changed', ...pod },
  'pod-removed': { kind: 'pod-removed', ...pod },
  'pod-name-refused': { kind: 'pod-name-refused', pod: 'a/b', dnsName: '{label:app}.svc', message },
  'pod-refused': { kind: 'pod-refused', pod: 'a/b', message },
  'log-lines-dropped': { kind: 'log-lines-dropped', lines: 1 },
}

function lineOf(event: AgentEvent, resource?: string): Line {
  const written: Line[] = []
  using log = new EventLog(memoryLog('debug', written), new FakeClock())
  log.write(event, resource)
  return written[0] ?? assert.fail(`${event.kind} is no line`)
}

const COMMON: ReadonlySet<string> = new Set(['level', 'time', 'scope', 'event', 'msg', 'resource', 'channel'])

for (const [kind, event] of Object.entries(EVENTS)) {
  const line = lineOf(event)
  // Two kinds are written under the name of another.
  if (line['event'] !== kind) continue
  test(`${kind}: the page has its level and fields`, () => {
    const row = rows.get(kind) ?? assert.fail(`${kind} is not in docs/reference/logs.md`)
    assert.deepEqual([line['level'], line['scope'] ?? 'agent'], [row.level, row.scope])
    // `resource` is in every row of the first table.
    const fields = Object.keys(line).filter(name => !COMMON.has(name) || row.fields.includes(name))
    assert.deepEqual([...row.fields].sort(), fields.sort())
    assert.equal(line['channel'] === 'security', row.about.endsWith('A security event') || row.scope === 'admin')
    // Milliseconds since the epoch have no place there.
    for (const name of fields) assert.ok(!(Number(line[name]) > 1e11), name)
  })
}

test('the page has no event that is not written', () => {
  assert.deepEqual(
    [...rows.keys()].filter(kind => !(kind in EVENTS)),
    [],
  )
})

test('an answer of the CA that cannot be true is a security event', () => {
  const line = lineOf({ kind: 'ca-error', code: 'bad-response', message })
  assert.equal(line['channel'], 'security')
  assert.match(rows.get('ca-error')?.about ?? '', /`bad-response` is a security event/)
})

test('an event of the socket of the admin endpoint is a security event of that scope', () => {
  const { msg: _, ...line } = lineOf(EVENTS['admin-socket-disturbed'])
  assert.deepEqual(line, { level: 'warn', scope: 'admin', channel: 'security', event: 'socket-lost', path })
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

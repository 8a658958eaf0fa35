/** What the page says first, from the state of an agent: the worst problem, its reason and its remedy. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import type { PageIdentity, PageOverview, PageStream } from '../../agent/src/page/state.ts'
import type { Facts } from '../src/verdict/facts.ts'
import { problemsOf } from '../src/verdict/problems.ts'
import { readinessText } from '../src/verdict/readiness.ts'

const NOW = Date.UTC(2026, 0, 1, 3)
const HOUR = 3_600_000
const MINUTE = 60_000

const overview: PageOverview = {
  phase: 'serving',
  ready: true,
  strictReady: true,
  reasons: [],
  moreReasons: 0,
  counts: { Initializing: 0, Available: 0, Renewing: 0, Failing: 0, Expired: 0, Idle: 0 },
  failing: {},
  sockets: [{ path: '/run/livery/sds.sock', state: 'listening', connections: 1, streams: 1 }],
  callers: [],
  moreCallers: 0,
  refusedConnections: 0,
  ca: { plugin: 'citadel', inFlight: 0, window: 32, queued: {} },
  keyGenerator: 'native',
  plannedPerMinute: [],
  process: { rssBytes: 1e8, memoryLimitBytes: 1e9, heapUsedBytes: 5e7 },
  logLevel: 'info',
}

/** `leftMs`: of a certificate of a day; none without it. */
function identity(name: string, fields: Partial<PageIdentity> & { readonly leftMs?: number } = {}): PageIdentity {
  const { leftMs, ...others } = fields
  const dates = leftMs === undefined ? {} : { notBefore: NOW + leftMs - 24 * HOUR, notAfter: NOW + leftMs }
  return { name: `spiffe://cluster.local/${name}`, state: 'Available', hold: 'pinned', ...dates, ...others }
}

function failure(code: string) {
  return { code, text: `${code}, says the CA`, at: NOW - MINUTE, since: NOW - HOUR }
}

function problems(identities: readonly PageIdentity[], facts: Partial<Facts> = {}) {
  const found = problemsOf({
    identities: new Map(identities.map(each => [each.name, each])),
    overview,
    streams: undefined,
    roots: undefined,
    storeBehindSince: undefined,
    now: NOW,
    clockAheadMs: 0,
    ...facts,
  })
  for (const { runbook } of found)
    assert.ok(existsSync(new URL(`../../../docs/runbook/${runbook}.md`, import.meta.url)), runbook)
  return found
}

test('an agent that is well has no problem, nor has one whose identities are in their first minute', () => {
  assert.deepEqual(problems([identity('a', { leftMs: 12 * HOUR }), identity('b', { state: 'Initializing' })]), [])
})

test('a certificate that expired comes before one that is about to, and that before one that fails early', () => {
  const found = problems([
    identity('early', { state: 'Failing', leftMs: 12 * HOUR, failure: failure('timeout') }),
    identity('soon', { state: 'Failing', leftMs: HOUR, failure: failure('denied') }),
    identity('gone', { state: 'Expired', failure: failure('denied') }),
  ])
  assert.deepEqual(
    found.map(({ severity, runbook, name }) => [severity, runbook, name]),
    [
      ['critical', 'certificate-expired', 'spiffe://cluster.local/gone'],
      ['critical', 'certificate-not-renewed', 'spiffe://cluster.local/soon'],
      ['warning', 'identities-failing', 'spiffe://cluster.local/early'],
    ],
  )
  assert.match(found[1]?.what ?? '', /soon is not renewed \(denied\): its certificate ends in 1h00m/)
  assert.equal(found[1]?.why, 'denied, says the CA')
  assert.match(found[1]?.remedy ?? '', /Allow it at the CA/)
  assert.deepEqual(found[1]?.commands, ['livery doctor', 'livery explain spiffe://cluster.local/soon'])
})

test('identities that fail alike are one problem, with the time of the first', () => {
  const found = problems([
    identity('a', { leftMs: 9 * HOUR, failure: failure('denied') }),
    identity('b', { leftMs: 7 * HOUR, failure: failure('denied') }),
    identity('c', { state: 'Initializing', failure: failure('denied') }),
  ])
  assert.deepEqual(
    found.map(({ what }) => what),
    [
      'spiffe://cluster.local/c has no certificate (denied)',
      '2 certificates are not renewed (denied): the first one ends in 7h00m',
    ],
  )
})

test('a refusal of one identity alone is not one of the token that others get certificates with', () => {
  const refused = identity('payments', { state: 'Initializing', failure: failure('unauthenticated') })
  const issued = (issuedAt: number) => identity(`other-${issuedAt}`, { leftMs: 12 * HOUR, issuedAt })
  const [alone] = problems([refused, issued(NOW - MINUTE), issued(NOW - HOUR - 500)])
  assert.match(alone?.remedy ?? '', /^The CA issues for 2 others, so the token that all share is fine/)
  assert.doesNotMatch(alone?.remedy ?? '', /audience/)
  assert.deepEqual(alone?.commands, ['livery explain spiffe://cluster.local/payments'])

  const [everybody] = problems([refused, issued(NOW - 2 * HOUR)])
  assert.match(everybody?.remedy ?? '', /the audience and the end of the token/)
  assert.equal(everybody?.commands[0], 'livery doctor')
})

test('a revoked certificate is critical, however long it lasts, and not blamed on the CA', () => {
  const [problem] = problems([identity('web', { state: 'Failing', leftMs: 20 * HOUR, failure: failure('revoked') })])
  assert.equal(problem?.severity, 'critical')
  assert.equal(problem?.runbook, 'certificate-revoked')
  assert.match(problem?.what ?? '', /web is revoked: peers refuse it/)
})

test('an agent that is ready and not strictly says how many are without a certificate, or not renewed', () => {
  const text = (identities: readonly PageIdentity[], fields: Partial<PageOverview> = {}) =>
    readinessText({ ...overview, strictReady: false, ...fields }, new Map(identities.map(each => [each.name, each])))
  const held = identity('held', { leftMs: HOUR })
  const failing = identity('failing', { leftMs: HOUR, failure: failure('denied') })
  const without = identity('without', { state: 'Initializing' })
  assert.equal(text([held, failing, without]), 'Ready; 1 of 3 has no certificate')
  assert.equal(text([held, without, identity('late', { state: 'Expired' })]), 'Ready; 2 of 3 have no certificate')
  assert.equal(text([held, failing]), 'Ready; 1 certificate is not renewed')
  assert.equal(text([held], { strictReady: true }), 'Ready')
  assert.equal(text([without], { ready: false }), 'Not ready')
})

test('a CA that is away is one problem, whatever waits for it; a refusal meanwhile is another', () => {
  const ca = { ...overview.ca, pause: { reason: 'ca-down' as const } }
  const away = { ...overview, ca, failing: { unavailable: 2, denied: 1 }, soonestExpiry: NOW + 5 * MINUTE }
  const found = problems(
    [
      identity('a', { leftMs: 5 * MINUTE, failure: failure('unavailable') }),
      identity('b', { leftMs: 9 * HOUR, failure: failure('unavailable') }),
      identity('c', { leftMs: 9 * HOUR, failure: failure('denied') }),
    ],
    { overview: away },
  )
  assert.deepEqual(
    found.map(({ severity, runbook }) => [severity, runbook]),
    [
      ['critical', 'ca-down'],
      ['warning', 'identities-failing'],
    ],
  )
  assert.match(found[0]?.what ?? '', /does not answer: the first certificate ends in 5m00s/)
  assert.match(found[0]?.why ?? '', /^2 identities wait/)
})

test('a renewal that is late without a failure, a removed identity, and a certificate that clients would refuse', () => {
  const found = problems([
    identity('late', { leftMs: 3 * HOUR }),
    identity('removed', { leftMs: HOUR, hold: 'removed' }),
    identity('refused', { leftMs: 12 * HOUR, warning: 'preflight-failed: the root is not served' }),
  ])
  assert.deepEqual(
    found.map(({ name, why }) => [name, why]),
    [
      ['spiffe://cluster.local/late', found[0]?.why],
      ['spiffe://cluster.local/refused', 'preflight-failed: the root is not served'],
    ],
  )
})

test('sockets, the store, the memory and clocks of an agent', () => {
  const sockets = [{ path: '/run/api.sock', state: 'waiting' as const, connections: 0, streams: 0 }]
  const ca = { ...overview.ca, clock: { ahead: 'node' as const, ms: 10 * MINUTE - 1_000, isExact: true } }
  const process = { ...overview.process, rssBytes: 95e7 }
  const bad = { ...overview, sockets, ca, process, store: { directory: '/var/store', unwritten: 3 } }
  const found = problems([], { overview: bad, storeBehindSince: NOW - MINUTE, clockAheadMs: 10 * MINUTE })
  assert.deepEqual(
    found.map(({ runbook, what }) => [runbook, what]),
    [
      ['socket-not-served', 'The socket /run/api.sock is not served'],
      [
        'store-failing',
        'The store /var/store cannot be written (the disk does not answer): 3 changes are only in memory',
      ],
      ['clock-skew', "The clocks of this node and of the CA differ by 10 minutes: this node's is ahead"],
      ['clock-skew', "The clock of this node is 10m00s ahead of this browser's"],
      ['memory', 'Little memory is left'],
    ],
  )
})

test('a store whose disk is full is a problem at once, with the reason, what to do and what not to do', () => {
  const store = { directory: '/var/store', unwritten: 21, failure: 'ENOSPC, no space left on device' }
  const [problem] = problems([], { overview: { ...overview, store }, storeBehindSince: NOW })
  assert.deepEqual(
    [problem?.what, problem?.remedy, problem?.commands, problem?.runbook, problem?.view],
    [
      'The store /var/store cannot be written (ENOSPC, no space left on device): 21 changes are only in memory',
      'Make room. Do not restart the agent before.',
      ['livery doctor', 'df -h /var/store'],
      'store-failing',
      'process',
    ],
  )
})

test('a write on its way, and the back-dating and skew that are usual, are no problems', () => {
  const ca = { ...overview.ca, clockAheadMs: -2 * MINUTE }
  const usual = { ...overview, ca, store: { directory: '/var/store', unwritten: 3 } }
  assert.deepEqual(problems([], { overview: usual, storeBehindSince: NOW - 1_000, clockAheadMs: -2_000 }), [])
})

test('what an agent waits for is said where nothing else explains it', () => {
  const waiting = { ...overview, ready: false, strictReady: false, reasons: ['the sockets to be bound'] }
  assert.deepEqual(
    problems([], { overview: waiting }).map(({ what, why }) => [what, why]),
    [['The agent is not ready', 'the sockets to be bound']],
  )
  assert.deepEqual(problems([], { overview: { ...waiting, phase: 'starting' } }), [])
})

test('a client that rejects a secret, and a root that waits for it, with text of others made visible', () => {
  const stream: PageStream = {
    id: 1,
    method: 'StreamSecrets',
    socket: '/run/livery/sds.sock',
    node: 'web\u202E1',
    since: NOW - HOUR,
    names: 2,
    refused: 0,
    pending: 0,
    rejected: ['ROOTCA'],
  }
  const root = {
    fingerprint: 'ab'.repeat(32),
    subject: 'CN=new',
    notAfter: NOW + HOUR,
    phase: 'announcing' as const,
    isListed: true,
    leaves: 0,
    learnedAt: NOW,
    waiting: 1,
    waitsFor: [{ client: 'web', reason: 'no\u0007' }],
  }
  const trustDomains = [{ trustDomain: 'cluster.local', phase: 'announcing' as const, roots: [root] }]
  const found = problems([], { streams: { total: 1, shown: [stream] }, roots: { trustDomains } })
  assert.deepEqual(
    found.map(({ what, why }) => [what, why]),
    [
      ['1 client rejects what it was sent: ROOTCA', 'web\\u202e1 answered with a NACK and keeps what it had before.'],
      [
        'The rotation of the root of cluster.local is held: CN=new (abababababab)',
        'web rejects the new root: no\\u0007',
      ],
    ],
  )
})

test('a name that a shell would read otherwise is quoted in the command', () => {
  const found = problems([identity("it's; rm", { state: 'Expired' })])
  assert.deepEqual(found[0]?.commands, ["livery explain 'spiffe://cluster.local/it'\\''s; rm'"])
})

/** The worst problem comes first, with its reason and its remedy, from the facts of an agent. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import {
  CertificateSecret,
  type FailureCode,
  type IdentityEntry,
  plainKeyVault,
  type RootStatus,
  SealedKey,
} from '@livery/core'
import { parseSpiffeId } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { heldSource } from '../../test/admin-source.ts'
import type { AgentSource, Rejection } from './facts.ts'

const NOW = Date.UTC(2026, 0, 1, 3)
const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** `leftMs`: of a certificate of a day; none without it. */
function identity(path: string, fields: Partial<IdentityEntry> & { readonly leftMs?: number } = {}): IdentityEntry {
  const { leftMs, ...others } = fields
  const name = parseSpiffeId(`spiffe://cluster.local/${path}`)
  const received = leftMs === undefined ? undefined : NOW + leftMs - 24 * HOUR
  const secret =
    leftMs === undefined || received === undefined
      ? undefined
      : new CertificateSecret({
          name,
          version: 'v',
          certificateChain: '',
          privateKey: new SealedKey(plainKeyVault, new Uint8Array()),
          notBefore: received,
          notAfter: NOW + leftMs,
          serialNumber: '01',
        })
  return {
    identity: name,
    state: secret ? 'available' : 'failing',
    hold: 'pinned',
    secret,
    root: undefined,
    addedAt: NOW - 24 * HOUR,
    renewAt: undefined,
    receivedAt: received,
    lastsUntil: secret?.notAfter,
    lastSuccessAt: received,
    lastFailure: undefined,
    failingSince: undefined,
    preflight: undefined,
    ...others,
  }
}

function failing(code: FailureCode, { at = NOW - MINUTE, since = NOW - HOUR } = {}) {
  return { lastFailure: { at, code, message: `${code}, says the CA` }, failingSince: since }
}

function problems(
  entries: readonly IdentityEntry[],
  fields: Parameters<typeof heldSource>[2] = {},
  rejections: readonly Rejection[] = [],
) {
  const found = heldSource(entries, new FakeClock(NOW), fields).diagnose().all(rejections)
  for (const { runbook } of found)
    if (runbook) assert.ok(existsSync(new URL(`../../../../docs/run/runbook/${runbook}.md`, import.meta.url)), runbook)
  return found
}

test('an agent that is well has no problem; an identity in its first minute is on its way', () => {
  const young = identity('b', { state: 'initializing', addedAt: NOW - 1_000 })
  assert.deepEqual(problems([identity('a', { leftMs: 12 * HOUR })]), [])
  assert.deepEqual(
    problems([identity('a', { leftMs: 12 * HOUR }), young]).map(({ code, severity }) => [code, severity]),
    [['first-certificate', 'pending']],
  )
  const [alone] = problems([young])
  assert.deepEqual([alone?.severity, alone?.unready], ['warning', 'default'])
})

test('what is broken comes before what is about to break, and that before what fails early', () => {
  const found = problems([
    identity('early', { leftMs: 20 * HOUR, ...failing('timeout') }),
    identity('soon', { leftMs: HOUR, ...failing('denied') }),
    identity('gone', { state: 'expired', ...failing('invalid-csr', { since: NOW - MINUTE }) }),
  ])
  assert.deepEqual(
    found.map(({ severity, runbook, what }) => [severity, runbook, what]),
    [
      [
        'critical',
        'certificate-expired',
        'The certificate of spiffe://cluster.local/gone expired (invalid-csr): new connections fail',
      ],
      ['critical', 'certificate-not-renewed', 'spiffe://cluster.local/soon is not renewed (denied)'],
      ['warning', 'identities-failing', 'spiffe://cluster.local/early is not renewed (timeout)'],
    ],
  )
  const [, soon] = found
  assert.deepEqual(
    [soon?.ends, soon?.reason, soon?.commands],
    [NOW + HOUR, 'denied, says the CA', ['livery doctor', 'livery explain spiffe://cluster.local/soon']],
  )
  assert.match(soon?.remedy ?? '', /Allow it at the CA/)
})

test('identities that fail for one cause are one problem, whatever follows for each', () => {
  const [problem, ...others] = problems([
    identity('a', { leftMs: 20 * HOUR, ...failing('denied') }),
    identity('b', { leftMs: 19 * HOUR, ...failing('denied') }),
    identity('c', failing('denied')),
    identity('d', { state: 'expired', ...failing('denied') }),
  ])
  assert.deepEqual(others, [])
  assert.equal(
    problem?.what,
    '1 certificate expired, 1 identity has no certificate, 2 certificates are not renewed (denied): new connections fail',
  )
})

test('a refusal of one identity alone is not one of the token that others get certificates with', () => {
  const refused = identity('payments', failing('unauthenticated'))
  const issued = (lastSuccessAt: number) => identity(`other-${lastSuccessAt}`, { leftMs: 12 * HOUR, lastSuccessAt })
  const [alone] = problems([refused, issued(NOW - MINUTE), issued(NOW - HOUR - 500)])
  assert.match(alone?.remedy ?? '', /^The CA issues for 2 others, so the token that all share is fine/)
  assert.deepEqual(alone?.commands, ['livery explain spiffe://cluster.local/payments'])
  const [everybody] = problems([refused, issued(NOW - 2 * HOUR)])
  assert.match(everybody?.remedy ?? '', /the audience and the end of the token/)
  assert.equal(everybody?.commands[0], 'livery doctor')
})

test('one that fails first when the token of all has ended is not refused alone for what others got just before', () => {
  const since = NOW - HOUR
  const others = identity('others', { leftMs: 12 * HOUR, lastSuccessAt: since - 5_000 })
  const renewal = { leftMs: 12 * HOUR, ...failing('unauthenticated') }
  for (const first of [
    identity('renewal', renewal),
    identity('new', { ...failing('unauthenticated'), addedAt: since - 100 }),
  ]) {
    const [problem] = problems([first, others])
    assert.match(problem?.remedy ?? '', /the audience and the end of the token/)
    assert.equal(problem?.commands[0], 'livery doctor')
  }
})

test('with a high ratio a renewal is on plan when less than a quarter of the life is left', () => {
  const planned = { leftMs: 4 * HOUR, renewAt: NOW + HOUR }
  assert.deepEqual(problems([identity('planned', planned)]), [])
  const heldBack = identity('held', { ...planned, lastSuccessAt: NOW - MINUTE })
  assert.deepEqual(
    problems([heldBack]).map(({ code }) => code),
    ['late'],
  )
})

test('a revoked certificate is critical, however long it lasts, and not blamed on the CA', () => {
  const [problem] = problems([identity('web', { leftMs: 20 * HOUR, ...failing('revoked') })])
  assert.deepEqual([problem?.severity, problem?.runbook], ['critical', 'certificate-revoked'])
  assert.match(problem?.what ?? '', /web is revoked: peers refuse it/)
})

test('a CA that is away is one problem, with its newest failure; what failed before the outage waits for it too', () => {
  const downSince = NOW - 10 * MINUTE
  const [problem, ...others] = problems(
    [
      identity('a', { leftMs: 5 * MINUTE, ...failing('unavailable') }),
      identity('b', { leftMs: 9 * HOUR, ...failing('timeout', { at: NOW - 2 * MINUTE }) }),
      identity('c', { leftMs: 9 * HOUR, ...failing('denied', { at: downSince - 1 }) }),
      identity('d', failing('denied', { at: downSince - 2 })),
    ],
    { downSince },
  )
  assert.deepEqual(others, [])
  assert.deepEqual(
    [problem?.severity, problem?.since, problem?.ends, problem?.what],
    [
      'critical',
      downSince,
      NOW + 5 * MINUTE,
      'The CA does not answer: 1 identity has no certificate, 3 certificates are not renewed',
    ],
  )
  assert.equal(
    problem?.reason,
    'unavailable: unavailable, says the CA. Before the outage 2 identities failed (denied): denied, says the CA',
  )
})

test('a renewal that is late without a failure, a removed identity, an idle one, and what clients would refuse', () => {
  const preflight = { reason: 'the root is not served', isServed: true }
  const found = problems([
    identity('late', { leftMs: 3 * HOUR }),
    identity('removed', { leftMs: HOUR, hold: 'removed' }),
    identity('idle', { leftMs: HOUR, state: 'idle' }),
    identity('refused', { leftMs: 12 * HOUR, preflight }),
  ])
  assert.deepEqual(
    found.map(({ code, what, severity }) => [code, what, severity]),
    [
      ['late', 'The certificate of spiffe://cluster.local/late should have been renewed', 'warning'],
      ['clients-refuse', 'Clients would refuse the certificate of spiffe://cluster.local/refused', 'warning'],
    ],
  )
})

test('sockets, pods, endpoints, the store and the memory of an agent', () => {
  const agent: Partial<AgentSource> = {
    sockets: () => [{ path: '/run/api.sock', state: 'waiting' }],
    pods: () => ({ known: true, problem: 'no answer' }),
    endpointProblems: () => ['the admin endpoint: EADDRINUSE'],
    store: () => ({ directory: '/var/store', unwritten: 3, failure: undefined, behindSince: NOW - MINUTE }),
    memory: () => ({ rssBytes: 95e7, limitBytes: 1e9 }),
  }
  assert.deepEqual(
    problems([], agent).map(({ code, severity, unready }) => [code, severity, unready]),
    [
      ['socket', 'critical', 'sockets'],
      ['store', 'warning', undefined],
      ['pods', 'warning', undefined],
      ['endpoint', 'warning', undefined],
      ['memory', 'warning', undefined],
    ],
  )
})

test('a store whose disk is full is a problem at once, a write on its way is none', () => {
  const store = { directory: '/var/store', unwritten: 21, failure: 'ENOSPC, no space left on device', behindSince: NOW }
  const [problem] = problems([], { store: () => store })
  assert.deepEqual(
    [problem?.what, problem?.remedy, problem?.commands],
    [
      'The store /var/store cannot be written (ENOSPC, no space left on device): 21 changes are only in memory',
      'Make room. Do not restart the agent before.',
      ['livery doctor', 'df -h /var/store'],
    ],
  )
  assert.deepEqual(problems([], { store: () => ({ ...store, failure: undefined }) }), [])
})

test('the clock of a CA that is ahead, by its newest certificate', () => {
  const ahead = identity('a', { leftMs: 23 * HOUR, receivedAt: NOW - HOUR - 10 * MINUTE })
  const [problem] = problems([ahead])
  assert.deepEqual([problem?.code, problem?.runbook], ['clock', 'clock-skew'])
})

test('a certificate that waits for its root says nothing of the clock, nor of the life of the one in use', () => {
  const justNow = { lastSuccessAt: NOW - 1_000 }
  assert.deepEqual(problems([identity('a', { leftMs: 12 * HOUR, ...justNow })]), [])
  const [problem] = problems([identity('a', { leftMs: HOUR, ...justNow })])
  assert.deepEqual([problem?.code, problem?.severity], ['late', 'critical'])
})

test('an identity that leaves does not make an outage worse', () => {
  const leaving = identity('leaving', { leftMs: MINUTE, hold: 'removed' })
  const [problem] = problems([identity('a', { leftMs: 12 * HOUR }), leaving], { downSince: NOW - MINUTE })
  assert.deepEqual([problem?.code, problem?.severity, problem?.ends], ['ca-down', 'warning', NOW + 12 * HOUR])
})

test('a client that rejects a secret, a root that waits for it, and a root that ends without another', () => {
  const root: RootStatus = {
    fingerprint: 'ab'.repeat(32),
    phase: 'announcing',
    isListed: true,
    leaves: 0,
    waiting: 1,
    waitsFor: [{ client: 'web', reason: 'no' }],
    learnedAt: NOW,
    settlesAt: NOW,
    leavesAt: undefined,
    notAfter: NOW + HOUR,
  }
  const rotations = () => [{ trustDomain: 'cluster.local', phase: 'announcing', roots: [root] }] as const
  const found = problems([], { rotations }, [{ client: 'web', name: 'ROOTCA' }])
  assert.deepEqual(
    found.map(({ code, reason }) => [code, reason]),
    [
      ['secrets-rejected', 'web answered with a NACK and keeps what it had before.'],
      ['root-rejected', 'web rejects the new root: no'],
      ['root-ends', 'No root that lasts longer is known.'],
    ],
  )
})

test('a name that a shell would read otherwise is quoted in the command', () => {
  const [problem] = problems([{ ...identity('x', failing('denied')), identity: "spiffe://cluster.local/it's; rm" }])
  assert.equal(problem?.commands.at(-1), "livery explain 'spiffe://cluster.local/it'\\''s; rm'")
})

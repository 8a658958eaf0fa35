import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeTrust } from './trust.ts'

test('each root has its phase, its certificates and dates; clients that it waits for are below it, and nothing of theirs breaks a line', () => {
  const root = {
    isListed: true,
    waiting: 0,
    waitsFor: [],
    learnedAt: 0,
    settlesAt: 0,
    leavesAt: undefined,
    notAfter: 86_400_000,
  }
  const text = describeTrust({
    now: 60_000,
    trustDomains: [
      {
        trustDomain: 'cluster.local',
        phase: 'announcing',
        roots: [
          { ...root, fingerprint: 'a'.repeat(64), phase: 'retiring', leaves: 1, isListed: false, leavesAt: 3_660_000 },
          {
            ...root,
            fingerprint: 'b'.repeat(64),
            phase: 'announcing',
            leaves: 0,
            settlesAt: 65_000,
            waiting: 25,
            waitsFor: [{ client: 'node "a"', reason: 'no\nsuch curve' }, { client: 'node "b"' }],
          },
        ],
      },
    ],
  })
  assert.deepEqual(text.split('\n'), [
    'cluster.local: announcing',
    '  aaaaaaaaaaaaaaaa  retiring    1 certificate, not listed, leaves in 1h00m',
    '    known for 1m00s, expires 1970-01-02T00:00:00.000Z',
    '  bbbbbbbbbbbbbbbb  announcing  0 certificates, settles in 5s',
    '    known for 1m00s, expires 1970-01-02T00:00:00.000Z',
    '    rejected by node "a": no such curve',
    '    waits for node "b"',
    '    and 23 more clients',
    '',
  ])
})

test('a root that came with a certificate is not marked as missing from a list, beside one that is listed', () => {
  const root = {
    fingerprint: 'a'.repeat(64),
    phase: 'trusted' as const,
    leaves: 1,
    isListed: false,
    leavesAt: undefined,
  }
  const times = { learnedAt: 0, settlesAt: 0, notAfter: 86_400_000, waiting: 0, waitsFor: [] }
  const text = describeTrust({
    now: 60_000,
    trustDomains: [
      {
        trustDomain: 'cluster.local',
        phase: 'steady',
        roots: [
          { ...root, ...times },
          { ...root, ...times, fingerprint: 'b'.repeat(64), leaves: 0, isListed: true },
        ],
      },
    ],
  })
  assert.match(text, /^ {2}a{16} {2}trusted {5}1 certificate$/m)
})

test('without a root the remedy is named', () => {
  assert.match(describeTrust({ now: 0, trustDomains: [] }), /livery explain ROOTCA/)
})

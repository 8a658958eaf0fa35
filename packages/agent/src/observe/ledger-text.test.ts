import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rowOf } from './event-table.ts'
import { formatAge } from './format-age.ts'
import type { LedgerEntry } from './ledger.ts'
import { describeLedger } from './ledger-text.ts'

function linesOf(entries: readonly LedgerEntry[], now: number): string[] {
  return describeLedger(
    entries.map(entry => ({ ...entry, text: rowOf(entry.event).sentence(entry.event) })),
    now,
  )
}

test('ages are written in at most two units', () => {
  const cases: readonly [number, string][] = [
    [0, '0ms'],
    [850, '850ms'],
    [42_000, '42s'],
    [187_000, '3m07s'],
    [5 * 3_600_000 + 20 * 60_000, '5h20m'],
    [12 * 86_400_000 + 4 * 3_600_000, '12d4h'],
    [-5, '0ms'],
  ]
  for (const [ms, text] of cases) assert.equal(formatAge(ms), text)
})

test('a ledger reads as a story, oldest first', () => {
  const day = 86_400_000
  const lines = linesOf(
    [
      { time: 0, event: { kind: 'csr-sent', reason: 'first' } },
      { time: 100, event: { kind: 'ca-error', code: 'unavailable', message: 'Cannot reach the CA.' } },
      { time: 100, event: { kind: 'retry-planned', at: 600 } },
      { time: 700, event: { kind: 'issued', serialNumber: 'AB', notAfter: day, renewAt: day / 2 } },
      { time: 700, event: { kind: 'served-later', until: 5_000, reason: 'root-announcing' } },
      {
        time: 700,
        event: { kind: 'restored', from: 'store', serialNumber: 'AB', notAfter: day, renewAt: day / 2 },
      },
      { time: 700, event: { kind: 'not-restored', reason: 'the stored certificate: it has expired' } },
      { time: 700, event: { kind: 'preflight-failed', reason: 'certificate signature failure', isServed: false } },
      { time: 700, event: { kind: 'preflight-failed', reason: 'certificate signature failure', isServed: true } },
      { time: 700, event: { kind: 'not-stored', reason: '/s/f cannot be kept: ENOSPC' } },
      {
        time: 700,
        event: {
          kind: 'root-phase',
          fingerprint: '0123456789abcdef',
          phase: 'announcing',
          reason: '2 clients must accept it first',
        },
      },
      { time: 5_000, event: { kind: 'pushed', to: 'node "a"', version: '0123456789abcdef' } },
      { time: 5_001, event: { kind: 'nacked', by: 'node "a"', version: '0123456789abcdef', detail: 'bad chain' } },
      { time: 5_001, event: { kind: 'removed', until: 305_001 } },
      { time: 5_001, event: { kind: 'kept' } },
      { time: 5_001, event: { kind: 'no-room', maxIdentities: 20_000 } },
      { time: 5_001, event: { kind: 'withdrawn', reason: 'idle' } },
      { time: 5_001, event: { kind: 'withdrawn', reason: 'evicted' } },
      { time: 5_002, count: 1_000, event: { kind: 'acked', by: 'node "b"', version: '0123456789abcdef' } },
    ],
    60_000,
  )
  assert.deepEqual(lines, [
    '1m00s ago  asked the CA for a certificate (the first)',
    '1m00s ago  the CA did not issue (unavailable): Cannot reach the CA.',
    '1m00s ago  next try planned for 1970-01-01T00:00:00.600Z',
    '  59s ago  issued: serial AB, valid until 1970-01-02T00:00:00.000Z, renewal planned for 1970-01-01T12:00:00.000Z',
    '  59s ago  served from 1970-01-01T00:00:05.000Z on: its new root is announced, and clients have to know it first',
    '  59s ago  taken from the store, as the previous process left it: serial AB, valid until 1970-01-02T00:00:00.000Z, renewal planned for 1970-01-01T12:00:00.000Z',
    '  59s ago  not taken from the disk, the CA is asked: the stored certificate: it has expired',
    '  59s ago  not served, the one in use stays: clients would refuse it with the roots that they are served: certificate signature failure',
    '  59s ago  served, although clients would refuse it with the roots that they are served, since no better certificate exists: certificate signature failure',
    '  59s ago  the store failed, which will be tried again; what is served is not affected: /s/f cannot be kept: ENOSPC',
    '  59s ago  root 0123456789ab is announced: 2 clients must accept it first',
    '  55s ago  pushed to node "a", version 0123456789ab',
    '  55s ago  rejected (NACK) by node "a", version 0123456789ab: bad chain',
    '  55s ago  no longer named by the configuration or a pod: held until 1970-01-01T00:05:05.001Z',
    '  55s ago  named again by the configuration or a pod: kept',
    '  55s ago  not taken on: maxIdentities (20000) are held, and each is configured or in use',
    '  55s ago  withdrawn: nobody has used it for a while',
    '  55s ago  withdrawn: unused, and its room was needed for another',
    '  55s ago  1000 times, last: accepted (ACK) by node "b", version 0123456789ab',
  ])
})

test('a text of the CA that comes again is written once', () => {
  const error = (message: string) => ({ time: 0, event: { kind: 'ca-error', code: 'timeout', message } }) as const
  const lines = linesOf([error('a long text'), error('another'), error('a long text')], 0)
  assert.deepEqual(lines, [
    '0ms ago  the CA did not issue (timeout): a long text',
    '0ms ago  the CA did not issue (timeout): another',
    '0ms ago  the CA did not issue (timeout): with the same text as above',
  ])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CertificateSecret, type IdentityEntry, parseSpiffeId } from '@livery/core'
import { GRACE_MS, readiness, readinessText } from './readiness.ts'

const identity = parseSpiffeId('spiffe://cluster.local/web')
const NOW = Date.UTC(2026, 0, 1)

function entry(fields: Partial<IdentityEntry>): IdentityEntry {
  return {
    identity,
    state: 'initializing',
    hold: 'pinned',
    secret: undefined,
    root: undefined,
    addedAt: NOW,
    renewAt: undefined,
    lastSuccessAt: undefined,
    lastFailure: undefined,
    ...fields,
  }
}

function secret(notBefore: number, notAfter: number): CertificateSecret {
  return new CertificateSecret({
    identity,
    version: 'v',
    certificateChain: '',
    privateKey: new Uint8Array(),
    notBefore,
    notAfter,
    serialNumber: '01',
  })
}

function look(entries: readonly IdentityEntry[], now = NOW) {
  return readiness({ phase: 'serving', sockets: [], entries, now, strict: false })
}

test('a new identity is forgiven for its first minute, then it counts', () => {
  assert.equal(look([entry({})], NOW + GRACE_MS - 1).ready, true)
  const late = look([entry({})], NOW + GRACE_MS)
  assert.deepEqual([late.ready, late.waitingFor], [false, [`${identity}: no certificate after its first minute`]])
})

test('a certificate counts only within its dates', () => {
  const old = entry({ addedAt: NOW - GRACE_MS })
  assert.equal(look([{ ...old, secret: secret(NOW, NOW + 1) }]).ready, true)
  assert.equal(look([{ ...old, secret: secret(NOW - 1, NOW) }]).ready, false)
  assert.equal(look([{ ...old, secret: secret(NOW + 1, NOW + 2) }]).ready, false)
})

test('an identity that needs no certificate, idle or removed, never counts', () => {
  const old = entry({ addedAt: NOW - GRACE_MS })
  assert.equal(look([{ ...old, state: 'idle' }]).ready, true)
  assert.equal(look([{ ...old, hold: 'removed' }]).ready, true)
})

test('a long list is cut with its count', () => {
  const many = Array.from({ length: 250 }, () => entry({ addedAt: NOW - GRACE_MS }))
  const lines = readinessText(look(many)).trimEnd().split('\n')
  assert.deepEqual([lines.length, lines.at(-1)], [103, '  and 150 more'])
})

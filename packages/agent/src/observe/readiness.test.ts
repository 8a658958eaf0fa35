import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CertificateSecret, type IdentityEntry, plainKeyVault, SealedKey } from '@livery/core'
import { parseSpiffeId } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { heldSource } from '../../test/admin-source.ts'
import type { AgentSource, PodsStatus } from '../diagnosis/facts.ts'
import { GRACE_MS } from '../diagnosis/identity-verdict.ts'
import type { ReadinessMode } from '../diagnosis/problem.ts'
import { readiness } from './readiness.ts'

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
    receivedAt: undefined,
    lastsUntil: undefined,
    lastSuccessAt: undefined,
    lastFailure: undefined,
    failingSince: undefined,
    preflight: undefined,
    ...fields,
  }
}

function secret(notBefore: number, notAfter: number): CertificateSecret {
  return new CertificateSecret({
    name: identity,
    version: 'v',
    certificateChain: '',
    privateKey: new SealedKey(plainKeyVault, new Uint8Array()),
    notBefore,
    notAfter,
    serialNumber: '01',
  })
}

function look(
  entries: readonly IdentityEntry[],
  now = NOW,
  mode: ReadinessMode = 'default',
  fields: Partial<AgentSource> = {},
) {
  const problems = heldSource(entries, new FakeClock(now), fields).diagnose().serving()
  const { ready, text } = readiness(problems, mode, now)
  const lists = text.split(/\n(?=\w)/).slice(1)
  const list = (title: string) =>
    lists
      .find(each => each.startsWith(`${title}:`))
      ?.trimEnd()
      .split('\n  ')
      .slice(1) ?? []
  return {
    ready,
    text,
    waitingFor: list('waiting for'),
    tolerated: list('without a certificate, not counted'),
    failing: list('renewals that fail'),
    failingNotCounted: list('renewals that fail, not counted'),
  }
}

const LAST_FAILURE = { at: NOW, code: 'unavailable', message: 'Cannot reach the CA.' } as const
/** Long held, and its certificate ended while the CA failed. */
const EXPIRED = entry({
  state: 'expired',
  addedAt: NOW - 2 * GRACE_MS,
  lastSuccessAt: NOW - 2 * GRACE_MS,
  lastFailure: LAST_FAILURE,
  failingSince: NOW,
})
/** Held as long, and its renewal has failed for a minute. */
const FAILING = entry({
  state: 'failing',
  addedAt: NOW - 2 * GRACE_MS,
  secret: secret(NOW - 1, NOW + 3_600_000),
  renewAt: NOW + 5_000,
  lastFailure: LAST_FAILURE,
  failingSince: NOW - GRACE_MS,
})
const SERVED = entry({ state: 'available', addedAt: NOW - 2 * GRACE_MS, secret: secret(NOW - 1, NOW + 1) })

test('beside one that is served a new identity is forgiven for its first minute, then it counts', () => {
  const served = { ...SERVED, secret: secret(NOW - 1, NOW + 2 * GRACE_MS) }
  assert.equal(look([served, entry({})], NOW + GRACE_MS - 1).ready, true)
  const late = look([served, entry({})], NOW + GRACE_MS)
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
  const lines = look(many).text.trimEnd().split('\n')
  assert.deepEqual([lines.length, lines.at(-1)], [103, '  and 150 more'])
})

test('it is not ready once every certificate has expired, and says for each why', () => {
  const { ready, waitingFor, tolerated } = look([EXPIRED, EXPIRED])
  assert.equal(ready, false)
  const line = `${identity}: the CA fails (unavailable): Cannot reach the CA.`
  assert.deepEqual(waitingFor, [line, line])
  assert.deepEqual(tolerated, [])
})

test('it stays ready while the CA fails for some, and others have a valid certificate', () => {
  const { ready, tolerated } = look([EXPIRED, SERVED])
  assert.deepEqual([ready, tolerated.length], [true, 1])
  assert.equal(look([EXPIRED, SERVED], NOW, 'strict').ready, false)
})

test('new identities do not hide that all the others have expired', () => {
  assert.equal(look([EXPIRED, entry({})]).ready, false)
})

test('a node that never got a certificate is not ready from its start, and says what it waits for', () => {
  const never = { ...EXPIRED, lastSuccessAt: undefined, addedAt: NOW }
  assert.equal(look([never]).ready, false)
  const { ready, waitingFor } = look([entry({})])
  assert.deepEqual([ready, waitingFor.at(-1)], [false, `${identity}: its first certificate is on the way`])
  assert.equal(look([]).ready, true)
})

test('a name on demand that the CA never issued for cannot make it unready, one that lost its certificate can', () => {
  const wish = { ...EXPIRED, hold: 'on-demand', lastSuccessAt: undefined } as const
  assert.equal(look([wish]).ready, true)
  assert.equal(look([{ ...wish, lastFailure: undefined }]).ready, true)
  assert.equal(look([{ ...EXPIRED, hold: 'on-demand' }]).ready, false)
})

test('without identities it is ready, and so it is when all that are left are removed ones', () => {
  assert.equal(look([]).ready, true)
  assert.equal(look([{ ...EXPIRED, hold: 'removed' }]).ready, true)
})

test('the mode sockets looks at sockets only, and still lists what is missing', () => {
  const { ready, tolerated } = look([EXPIRED], NOW, 'sockets')
  assert.deepEqual([ready, tolerated.length], [true, 1])
  const sockets = [{ path: '/run/a.sock', state: 'closed' }] as const
  assert.equal(look([], NOW, 'sockets', { sockets: () => sockets }).ready, false)
  assert.equal(look([], NOW, 'sockets', { phase: () => 'draining' }).ready, false)
})

test('it is not ready before the pods of the node are known, and stays ready while the API server is away', () => {
  const lookWith = (pods: PodsStatus, mode: ReadinessMode = 'default') => look([], NOW, mode, { pods: () => pods })
  const unknown = lookWith({ known: false, problem: 'HTTP 403' })
  assert.deepEqual([unknown.ready, unknown.waitingFor], [false, ['The pods of this node are not known: HTTP 403']])
  assert.equal(lookWith({ known: false, problem: undefined }).ready, false)
  for (const mode of ['default', 'strict', 'sockets'] as const) {
    assert.equal(
      lookWith({ known: true, problem: 'no answer' }, mode).text,
      'ready\nnot counted:\n  Pods that come or go are not seen: no answer\n',
    )
    assert.equal(lookWith({ known: true, problem: undefined }, mode).text, 'ready\n')
  }
})

test('a renewal that fails for a minute counts in strict mode only, one that was removed never', () => {
  const line = `${identity}: has failed for 1m00s, next try in 5s, its certificate ends in 1h00m: the CA fails (unavailable): Cannot reach the CA.`
  const strict = look([FAILING, SERVED], NOW, 'strict')
  assert.deepEqual([strict.ready, strict.failing], [false, [line]])
  for (const mode of ['default', 'sockets'] as const) {
    const { ready, failing, failingNotCounted } = look([FAILING, SERVED], NOW, mode)
    assert.deepEqual([ready, failing, failingNotCounted], [true, [], [line]])
  }
  const young = look([{ ...FAILING, failingSince: NOW - GRACE_MS + 1 }], NOW, 'strict')
  assert.deepEqual([young.ready, young.failing.length, young.failingNotCounted.length], [true, 0, 1])
  const deferred = { ...FAILING, lastFailure: { ...LAST_FAILURE, deferred: NOW + 1_800_000 } }
  assert.equal(look([deferred], NOW, 'strict').ready, true)
  assert.equal(look([deferred], NOW + 2_700_000, 'strict').ready, false, 'a quarter of its life is left')
  const removed = look([{ ...FAILING, hold: 'removed' }], NOW, 'strict')
  assert.deepEqual([removed.ready, removed.failing.length, removed.failingNotCounted.length], [true, 0, 0])
  const tried = look([{ ...FAILING, renewAt: undefined }], NOW, 'strict')
  assert.match(tried.failing[0] ?? '', /has failed for 1m00s, an attempt is queued or in flight, its certificate/)
})

test('of ten thousand renewals that fail the hundred with the least life left are listed, and the others counted', () => {
  const failing = Array.from({ length: 10_000 }, (_, index) => ({
    ...FAILING,
    identity: parseSpiffeId(`spiffe://cluster.local/sa-${index}`),
    secret: secret(NOW - 1, NOW + ((index * 7_919) % 10_000) + 1_000),
  }))
  const lines = look(failing, NOW, 'strict').text.trimEnd().split('\n')
  assert.deepEqual([lines.length, lines[0], lines.at(-1)], [103, 'not ready', '  and 9900 more'])
  const listed = lines.slice(2, -1).map(line => Number(/sa-(\d+)/.exec(line)?.[1]))
  assert.deepEqual(
    listed.map(index => (index * 7_919) % 10_000),
    Array.from({ length: 100 }, (_, place) => place),
  )
})

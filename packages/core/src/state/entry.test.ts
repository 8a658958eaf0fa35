import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import { CAError, type IssuedCertificate } from '../contract/ca-client.ts'
import type { IdentityEntry } from './entry.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const SECOND = 1_000
const MINUTE = 60_000
const HOUR = 60 * MINUTE

const denied = () => Promise.reject(new CAError('denied', 'Cannot issue: not allowed.'))

function entry(bench: Bench): IdentityEntry {
  return bench.manager.entry(WEB) ?? assert.fail('it is not held')
}

/** Has the CA fail the next attempt, which is due now or later. */
async function failNext(bench: Bench): Promise<void> {
  const errors = bench.count('ca-error')
  bench.ca.answer = denied
  if (entry(bench).renewAt !== undefined) await bench.toNextDue(WEB)
  await bench.until('ca-error', errors + 1)
}

test('an identity is available, renewing, failing with its certificate, expired without, and available again', async () => {
  await using bench = await Bench.create()
  bench.manager.add(WEB)
  assert.equal(entry(bench).state, 'initializing')
  await bench.until('issued', 1)
  const { state, secret } = entry(bench)
  assert.equal(state, 'available')

  const answer = Promise.withResolvers<IssuedCertificate>()
  bench.ca.answer = () => answer.promise
  await bench.toNextDue(WEB)
  assert.deepEqual([entry(bench).state, entry(bench).secret], ['renewing', secret])
  answer.reject(new CAError('denied', 'Cannot issue: not allowed.'))
  await bench.until('ca-error', 1)
  const since = bench.clock.now()
  assert.deepEqual([entry(bench).state, entry(bench).secret, entry(bench).failingSince], ['failing', secret, since])

  while (entry(bench).secret) await failNext(bench)
  const { lastFailure, failingSince } = entry(bench)
  assert.deepEqual([entry(bench).state, lastFailure?.code, failingSince], ['expired', 'denied', since])
  assert.ok((lastFailure?.at ?? 0) > since)

  bench.ca.answer = (request, sign) => sign(request)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  assert.deepEqual([entry(bench).state, entry(bench).failingSince], ['available', undefined])
})

test('while it fails, an attempt in flight does not hide that', async () => {
  await using bench = await Bench.create()
  await bench.add(WEB)
  await failNext(bench)
  const answer = Promise.withResolvers<IssuedCertificate>()
  bench.ca.answer = () => answer.promise
  await bench.toNextDue(WEB)
  assert.deepEqual([bench.count('csr-sent'), entry(bench).renewAt, entry(bench).state], [3, undefined, 'failing'])
})

test('an identity that never had a certificate is initializing until the CA fails for it', async () => {
  await using bench = await Bench.create()
  bench.manager.add(WEB)
  assert.equal(entry(bench).state, 'initializing')
  await failNext(bench)
  assert.deepEqual([entry(bench).state, entry(bench).secret], ['failing', undefined])
})

test('a first certificate that is not valid yet leaves its identity initializing', async () => {
  await using bench = await Bench.create()
  bench.ca.answer = (request, sign) => sign(request, { notBefore: bench.clock.now() + SECOND })
  bench.manager.add(WEB)
  await bench.until('served-later', 1)
  assert.equal(entry(bench).state, 'initializing')
  await bench.clock.advance(SECOND)
  assert.equal(entry(bench).state, 'available')
})

test('an identity that was idle starts again: failures from before do not count', async () => {
  await using bench = await Bench.create({ idle: { action: 'drop', afterMs: HOUR } })
  bench.manager.add(WEB)
  await failNext(bench)
  await bench.clock.advance(HOUR)
  assert.deepEqual([entry(bench).state, entry(bench).failingSince], ['idle', undefined])
  bench.ca.answer = () => new Promise(() => {})
  using _ = bench.manager.watch({ kind: 'identity', identity: WEB }, () => {})
  assert.deepEqual([entry(bench).state, entry(bench).failingSince], ['initializing', undefined])
})

test('it lasts as long as the last certificate that peers accept, the waiting one included', async () => {
  await using bench = await Bench.create({ rotation: { settleMs: HOUR, surviveMs: HOUR } })
  const { notAfter } = await bench.add(WEB)
  assert.equal(entry(bench).lastsUntil, notAfter)
  await bench.ca.addRoot()
  bench.ca.dropOldRoots()
  await bench.clock.advance(2 * MINUTE)
  bench.manager.renew(WEB)
  await bench.until('issued', 2)
  const { secret, lastsUntil = 0 } = entry(bench)
  assert.equal(secret?.notAfter, notAfter, 'the new one waits for its root')
  assert.ok(lastsUntil > notAfter)
})

test('certificates that live too short for the outage are reported once, and again when they live half as long', async () => {
  await using bench = await Bench.create({ ttlSeconds: 600, rotation: { surviveMs: HOUR } })
  await bench.add(WEB)
  await bench.add('spiffe://cluster.local/ns/default/sa/api')
  assert.deepEqual(bench.last('life-too-short'), { kind: 'life-too-short', lifetimeMs: 600_000, surviveMs: HOUR })
  bench.ca.answer = (request, sign) => sign({ ...request, ttlSeconds: 301 })
  await bench.toNextDue(WEB)
  await bench.until('issued', 3)
  assert.equal(bench.count('life-too-short'), 1)
  bench.ca.answer = (request, sign) => sign({ ...request, ttlSeconds: 299 })
  await bench.toNextDue(WEB)
  await bench.until('issued', 4)
  assert.equal(bench.count('life-too-short'), 2)
})

test('certificates that outlive the outage are renewed while so much is left', async () => {
  await using bench = await Bench.create({ ttlSeconds: 3 * 3_600, rotation: { surviveMs: 2 * HOUR } })
  const { notAfter } = await bench.add(WEB)
  assert.ok(notAfter - (entry(bench).renewAt ?? 0) >= 2 * HOUR)
  assert.equal(bench.count('life-too-short'), 0)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { CAError } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const HOUR = 3_600_000
const denied = () => Promise.reject(new CAError('denied', 'not now'))
const names = Array.from({ length: 50 }, (_, index): SpiffeId => `${WEB}-${index}`)

/** Fifty identities that the CA denies a renewal, each with about a quarter of a day left. */
async function setUpDenied() {
  const bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
  const { answer } = bench.ca
  for (const identity of names) bench.manager.add(identity)
  await bench.until('issued', names.length)
  bench.ca.answer = denied
  await bench.clock.advance(18 * HOUR)
  const asked = bench.ca.requests.length
  return { bench, answer, asked }
}

test('identities with plenty of life left wait the longest backoff after a denial', async () => {
  const { bench, asked } = await setUpDenied()
  await using _ = bench
  await bench.clock.advance(150_000 * 1.2)
  const again = bench.ca.requests.length - asked
  assert.ok(again >= names.length && again <= 2 * names.length, `asked ${again} times`)
})

test('a reload tries again what failed, within ten seconds, and not in one instant', async () => {
  const { bench, answer } = await setUpDenied()
  await using _ = bench
  bench.ca.answer = answer
  bench.manager.retryFailing()
  const issued = bench.count('issued')
  await bench.clock.advance(2_000)
  assert.ok(bench.count('issued') - issued < names.length / 2)
  await bench.clock.advance(8_500)
  assert.ok(bench.count('issued') - issued >= names.length * 0.9)
  const failing = bench.manager
    .entries()
    .filter(({ identity }) => (bench.served(identity)?.notBefore ?? 0) < bench.clock.now() - HOUR)
  assert.deepEqual(failing, [])
})

test('new roots try again what failed: the answer may have failed for want of them', async () => {
  await using bench = await Bench.create({ ttlSeconds: 60 })
  const first = await bench.add(WEB)
  bench.ca.answer = async () => {
    throw new CAError('bad-response', 'it ends under a root that is not trusted')
  }
  await bench.clock.advance(first.notAfter - bench.clock.now() - 11_000)
  assert.ok((bench.manager.entry(WEB)?.renewAt ?? 0) > bench.clock.now())
  bench.ca.answer = (request, sign) => sign(request)
  await bench.ca.addRoot()
  await bench.until('roots-changed', 2)
  await bench.clock.advance(1_500)
  await bench.until('issued', 2)
  assert.equal(bench.count('withdrawn'), 0)
})

test('an operator renews an identity at once, whatever is planned for it', async () => {
  await using bench = await Bench.create()
  await bench.add(WEB)
  await bench.clock.advance(10_000)
  assert.equal(bench.manager.renew(WEB), true)
  await bench.until('issued', 2)
  assert.equal(bench.manager.renew(`${WEB}-unknown`), false)
})

test('and not twice within a second', async () => {
  await using bench = await Bench.create({ verifier: believer() }, answerInstantly)
  await bench.add(WEB)
  for (let call = 0; call < 100; call++) {
    bench.manager.renew(WEB)
    await bench.clock.advance(100)
  }
  assert.ok(bench.ca.requests.length <= 11, `asked ${bench.ca.requests.length} times in 10 s`)
})

test('and while the CA is down, probes it with that identity', async () => {
  await using bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
  for (const identity of names) bench.manager.add(identity)
  await bench.until('issued', names.length)
  bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'away'))
  await bench.clock.advance(20 * HOUR)
  await bench.clock.advance(600)
  bench.ca.requests.length = 0
  const last = names.at(-1) ?? WEB
  bench.manager.renew(last)
  await bench.clock.advance(500)
  assert.equal(bench.ca.requests[0]?.identity, last)
})

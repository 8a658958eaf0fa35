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

/** The CA knows the identity after `afterMs`; resolves with how long after that it has its certificate, milliseconds. */
async function lateAfter(afterMs: number, code: 'unauthenticated' | 'bad-response'): Promise<number> {
  await using bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
  const { answer } = bench.ca
  bench.ca.answer = () => Promise.reject(new CAError(code, 'no pod of it here'))
  bench.manager.add(WEB)
  for (let passed = 0; passed < afterMs; passed += 100) await bench.clock.advance(100)
  bench.ca.answer = answer
  let late = 0
  for (; bench.count('issued') === 0 && late < 60_000; late += 250) await bench.clock.advance(250)
  return late
}

test('a new identity that the CA does not know yet has its certificate within two seconds after the CA does', async () => {
  for (const afterMs of [300, 1_600, 4_000, 8_000, 16_000]) {
    const late = await lateAfter(afterMs, 'unauthenticated')
    assert.ok(late <= 2_250, `known after ${afterMs} ms, issued ${late} ms later`)
  }
  assert.ok((await lateAfter(8_000, 'bad-response')) > 2_250)
})

test('and one that the CA never knows waits longer and longer all the same', async () => {
  await using bench = await Bench.create({ random: () => 0.5 }, ca => {
    ca.answer = () => Promise.reject(new CAError('unauthenticated', 'no pod of it here'))
  })
  bench.manager.add(WEB)
  const waits: number[] = []
  for (let failures = 1; failures <= 17; failures++) {
    await bench.until('retry-planned', failures)
    waits.push(bench.last('retry-planned').at - bench.clock.now())
    await bench.toNextDue(WEB)
  }
  assert.deepEqual(waits.slice(0, 12), [500, 1_000, ...Array.from({ length: 8 }, () => 2_000), 4_000, 8_000])
  assert.equal(waits.at(-1), 150_000)
})

/** Events that hurry an identity, and the milliseconds until it has its certificate then. */
const hurries: readonly (readonly [string, number, (bench: Bench) => unknown])[] = [
  ['a request of a stream', 0, bench => bench.request(WEB)],
  ['a new pod', 0, bench => bench.manager.retry(WEB)],
  ['another token', 0, bench => bench.manager.add(WEB, { tokenFile: '/run/other-token' })],
  ['a reload', 10_000, bench => bench.manager.retryFailing()],
  [
    'a new root',
    10_000,
    async bench => {
      const changes = bench.count('roots-changed')
      await bench.ca.addRoot()
      await bench.until('roots-changed', changes + 1)
    },
  ],
]
for (const [what, withinMs, hurry] of hurries)
  test(`${what} hurries an identity without a certificate that waits out the longest backoff`, async () => {
    await using bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
    await bench.add(`${WEB}-other`)
    const { answer } = bench.ca
    bench.ca.answer = denied
    bench.manager.add(WEB)
    await bench.until('retry-planned', 1)
    await bench.clock.advance(20_000)
    bench.ca.answer = answer
    assert.equal(bench.served(WEB), undefined)
    await hurry(bench)
    await bench.clock.advance(withinMs + 500)
    assert.ok(bench.served(WEB))
  })

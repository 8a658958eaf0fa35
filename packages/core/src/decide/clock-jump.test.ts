import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { CAError } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { sleep } from '../time/deadline.ts'

const HOUR = 3_600_000
const names = Array.from({ length: 40 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/default/sa/sa-${index}`)

/** Identities that came an hour apart, so that each has something else left. */
async function setUp() {
  const bench = await Bench.create(
    { verifier: believer(100 * HOUR), concurrency: 1, random: () => 0.5 },
    answerInstantly,
  )
  for (const [index, identity] of names.entries()) {
    bench.manager.add(identity)
    await bench.until('issued', index + 1)
    await bench.clock.advance(HOUR / 2)
  }
  return bench
}

test('after a sleep the roots come first, then leaves by what is left of them', async () => {
  await using bench = await setUp()
  const calls: string[] = []
  const { answer } = bench.ca
  bench.ca.trustBundle = async () => {
    calls.push('roots')
    await sleep(bench.clock, 1_000)
    return bench.ca.roots
  }
  bench.ca.answer = (request, sign) => {
    calls.push(request.identity)
    return answer(request, sign)
  }
  bench.clock.jump(65 * HOUR)
  await bench.clock.advance(1_000)
  await bench.until('issued', 2 * names.length)
  assert.deepEqual(calls, ['roots', ...names])
  assert.deepEqual(bench.last('clock-jumped'), { kind: 'clock-jumped', how: 'forward', ms: 65 * HOUR })
  assert.equal(bench.count('withdrawn'), 0)
})

test('a certificate that ended while nothing ran is not served, though its timer is still to run', async () => {
  await using bench = await setUp()
  const [first, last] = [names[0], names.at(-1)] as [SpiffeId, SpiffeId]
  const { notAfter = 0 } = bench.served(first) ?? {}
  bench.clock.jump(notAfter - bench.clock.now() - 1)
  assert.equal(bench.served(first)?.notAfter, notAfter)
  bench.clock.jump(1)
  assert.equal(bench.served(first), undefined)
  assert.ok(bench.served(last))
  assert.equal(bench.count('withdrawn'), 0)
})

test('a clock that is set past notAfter and back, unseen, leaves nobody without the certificate while no CA answers', async () => {
  await using bench = await setUp()
  bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'down'))
  const [identity] = names as [SpiffeId]
  const { notAfter = 0 } = bench.served(identity) ?? {}
  const jump = notAfter - bench.clock.now()
  bench.clock.jump(jump)
  const items: unknown[] = []
  using _watch = bench.manager.watch({ kind: 'identity', identity }, item => items.push(item))
  assert.equal(bench.served(identity), undefined)
  bench.clock.jump(-jump)
  await bench.clock.advance(10_000)
  assert.deepEqual(items, [bench.served(identity)])
  assert.ok(items[0])
  assert.equal(bench.count('withdrawn'), 0)
})

test('leaves wait two seconds for the roots of a CA that does not list them', async () => {
  await using bench = await setUp()
  bench.ca.trustBundle = ({ signal } = { signal: new AbortController().signal }) =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  bench.ca.requests.length = 0
  bench.clock.jump(65 * HOUR)
  await bench.clock.advance(1_999)
  assert.equal(bench.ca.requests.length, 0)
  await bench.clock.advance(1)
  await bench.until('issued', 2 * names.length)
})

test('a clock that is set back keeps nobody from its retry, and no call from its deadline', async () => {
  await using bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
  const [denied, hung] = names as [SpiffeId, SpiffeId]
  const { answer } = bench.ca
  bench.ca.answer = ({ identity }) =>
    identity === hung ? new Promise(() => {}) : Promise.reject(new CAError('denied', 'not now'))
  bench.manager.add(denied)
  bench.manager.add(hung)
  await bench.until('retry-planned', 1)
  bench.clock.jump(-5 * HOUR)
  bench.ca.answer = answer
  await bench.clock.advance(0)
  await bench.clock.advance(2_000)
  assert.ok(bench.served(denied), 'the one that was denied waits for the old time')
  await bench.clock.advance(30_000)
  assert.ok(bench.served(hung), 'the one that hung waits for the old deadline')
})

test('and no probe of a CA that is down, and no pause that it asked for', async () => {
  for (const code of ['unavailable', 'rate-limited'] as const) {
    await using bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
    const { answer } = bench.ca
    bench.ca.answer = () => Promise.reject(new CAError(code, 'not now'))
    for (const identity of names) bench.manager.add(identity)
    await bench.until('retry-planned', 4)
    await bench.clock.advance(20_000)
    bench.clock.jump(-5 * HOUR)
    bench.ca.answer = answer
    await bench.clock.advance(13_000)
    assert.equal(bench.manager.entries().filter(({ state }) => state === 'available').length, names.length, code)
  }
})

test('a jump within five seconds is drift', async () => {
  await using bench = await setUp()
  bench.clock.jump(4_999)
  await bench.clock.advance(0)
  assert.equal(bench.count('clock-jumped'), 0)
})

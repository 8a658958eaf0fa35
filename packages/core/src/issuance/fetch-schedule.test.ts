import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { CAError } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

const healthy = names('healthy', 20)
const hung = names('hung', 10)

function names(prefix: string, count: number): readonly SpiffeId[] {
  return Array.from({ length: count }, (_, index): SpiffeId => `spiffe://cluster.local/ns/${prefix}/sa/sa-${index}`)
}

/** Certificates live ten minutes: renewed in time, with 240 s left at the latest, and half of that for the others' failing calls. */
const LIFETIME = 600_000
const ENOUGH_LEFT = 120_000

/** Twenty healthy identities, `older` ones whose certificates end before theirs, and a CA that fails for `hung` as soon as it `fails`. */
async function setUp(fail: () => Promise<never>, older: readonly SpiffeId[] = []) {
  const state = { fails: false, isAway: false }
  const bench = await Bench.create({ verifier: believer(LIFETIME) }, ca => {
    answerInstantly(ca)
    const { answer } = ca
    ca.answer = (request, sign) => {
      if (state.isAway) return Promise.reject(new CAError('unavailable', 'away'))
      return state.fails && isHung(request.identity) ? fail() : answer(request, sign)
    }
  })
  for (const identity of older) bench.manager.add(identity)
  await bench.until('issued', older.length)
  await bench.clock.advance(60_000)
  for (const identity of healthy) bench.manager.add(identity)
  await bench.until('issued', older.length + healthy.length)
  return { bench, state }
}

const isHung = (identity: SpiffeId) => identity.includes('/hung/')
const neverAnswer = () => new Promise<never>(() => {})

/** An hour passes, with `meanwhile` every ten seconds; the healthy have enough left of their certificates all the time. */
async function expectRenewedInTime(bench: Bench, meanwhile: (second: number) => void = () => {}): Promise<void> {
  for (let second = 0; second < 3_600; second += 10) {
    meanwhile(second)
    await bench.clock.advance(10_000)
    for (const identity of healthy) {
      const left = (bench.served(identity)?.notAfter ?? 0) - bench.clock.now()
      assert.ok(left >= ENOUGH_LEFT, `after ${second} s ${identity} has ${left} ms left`)
    }
  }
}

test('identities that the CA never answers keep no other from its renewal', async () => {
  const { bench, state } = await setUp(neverAnswer)
  await using _ = bench
  state.fails = true
  for (const identity of hung) bench.manager.add(identity)
  await expectRenewedInTime(bench)
})

test('and so when streams ask for them again and again', async () => {
  const { bench, state } = await setUp(neverAnswer)
  await using _ = bench
  state.fails = true
  await expectRenewedInTime(bench, () => {
    for (const identity of hung) bench.request(identity)
  })
})

test('and so when they are forgotten each time and requested again', async () => {
  const { bench, state } = await setUp(neverAnswer)
  await using _ = bench
  state.fails = true
  await expectRenewedInTime(bench, () => {
    for (const { identity, renewAt } of bench.manager.entries())
      if (isHung(identity) && renewAt !== undefined) bench.manager.forget(identity)
    for (const identity of hung) bench.request(identity)
  })
})

test('and so when they had certificates, which end first', async () => {
  const { bench, state } = await setUp(neverAnswer, hung)
  await using _ = bench
  state.fails = true
  await expectRenewedInTime(bench)
})

test('and so when the others have failed as well, for half a minute', async () => {
  const { bench, state } = await setUp(neverAnswer, hung)
  await using _ = bench
  state.fails = true
  await expectRenewedInTime(bench, second => {
    state.isAway = second % 600 >= 270 && second % 600 < 300
  })
})

test('and so when the CA has no room for them, whenever they ask', async () => {
  const { bench, state } = await setUp(() => Promise.reject(new CAError('rate-limited', 'no room for this one')))
  await using _ = bench
  state.fails = true
  for (const identity of hung) bench.manager.add(identity)
  await expectRenewedInTime(bench)
})

test('requests that nobody approves keep no other from its renewal', async () => {
  const { bench, state } = await setUp(neverAnswer)
  await using _ = bench
  const { answer } = bench.ca
  bench.ca.answer = async (request, sign) => {
    if (state.fails && isHung(request.identity)) await request.ticket?.keep('waits for an approval')
    return await answer(request, sign)
  }
  state.fails = true
  for (const identity of names('hung', 300)) bench.manager.add(identity)
  await expectRenewedInTime(bench)
})

for (const isStreamed of [true, false])
  test(`a request that is queued when the certificate ends becomes urgent, where it is ${isStreamed ? '' : 'not '}streamed`, async () => {
    await using bench = await Bench.create({
      concurrency: 1,
      timeoutMs: 3_600_000,
      verifier: believer(LIFETIME),
    })
    answerInstantly(bench.ca)
    const { answer } = bench.ca
    await bench.add(WEB)
    using _ = isStreamed ? bench.manager.watch({ kind: 'identity', identity: WEB }, () => {}) : undefined
    bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'away'))
    await bench.toNextDue(WEB)
    await bench.until('retry-planned', 1)
    const busy = Promise.withResolvers<void>()
    bench.ca.requests.length = 0
    bench.ca.answer = async (request, sign) => {
      await busy.promise
      return await answer(request, sign)
    }
    bench.manager.add(`${WEB}-busy`)
    await bench.clock.advance(600_000)
    assert.equal(bench.last('withdrawn').reason, 'expired')
    bench.manager.add(`${WEB}-new`)
    bench.request(`${WEB}-on-demand`)
    busy.resolve()
    await bench.until('issued', 1 + 4)
    const expected = isStreamed ? ['-busy', '', '-on-demand', '-new'] : ['-busy', '-on-demand', '', '-new']
    assert.deepEqual(
      bench.ca.requests.map(({ identity }) => identity.slice(WEB.length)),
      expected,
    )
  })

/** Two hundred identities that are in their longest backoff, since the CA was away for half an hour. */
async function setUpOutage() {
  const bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
  const { answer } = bench.ca
  bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'away'))
  const waiting = names('waiting', 200)
  for (const identity of waiting) bench.manager.add(identity)
  await bench.clock.advance(1_800_000)
  bench.ca.answer = answer
  return { bench, waiting }
}

test('after an outage one success wakes all that failed in it, spread over ten seconds', async () => {
  const { bench, waiting } = await setUpOutage()
  await using _ = bench
  bench.manager.add(WEB)
  await bench.until('issued', 1)
  const perSecond: number[] = []
  for (let second = 0, before = 1; second < 11; second++) {
    await bench.clock.advance(1_000)
    perSecond.push(bench.count('issued') - before)
    before = bench.count('issued')
  }
  assert.equal(bench.count('issued'), 1 + waiting.length)
  assert.ok(Math.max(...perSecond) <= 40, `issued in each second: ${perSecond}`)
})

test('one that fails alone keeps its backoff while others succeed all the time', async () => {
  await using bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
  const { answer } = bench.ca
  bench.ca.answer = (request, sign) =>
    request.identity === WEB ? Promise.reject(new CAError('unavailable', 'not for this one')) : answer(request, sign)
  bench.manager.add(WEB)
  await bench.until('retry-planned', 1)
  for (const [index, identity] of names('healthy', 180).entries()) {
    bench.manager.add(identity)
    await bench.until('issued', index + 1)
    await bench.clock.advance(10_000)
  }
  const asked = bench.ca.requests.filter(({ identity }) => identity === WEB).length
  assert.ok(asked <= 9 + 1_800 / 150, `asked ${asked} times in half an hour`)
})

test('a request of a stream hurries an identity that has no certificate, once in ten seconds at most', async () => {
  const { bench, waiting } = await setUpOutage()
  await using _ = bench
  const [first = WEB, other = WEB] = waiting
  using watch = bench.manager.watch({ kind: 'identity', identity: first }, () => {})
  watch.request()
  await bench.clock.advance(0)
  assert.ok(bench.served(first), 'a CA that is back is asked at once')

  bench.ca.answer = () => Promise.reject(new CAError('denied', 'not this one'))
  const before = bench.ca.requests.filter(({ identity }) => identity === other).length
  for (let second = 0; second < 60; second++) {
    bench.request(other)
    await bench.clock.advance(1_000)
  }
  const asked = bench.ca.requests.filter(({ identity }) => identity === other).length - before
  assert.ok(asked >= 6 && asked <= 7, `asked ${asked} times in a minute`)
})

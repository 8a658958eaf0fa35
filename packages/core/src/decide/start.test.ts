import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { CAError } from '../contract/ca-client.ts'
import type { SecretManagerOptions } from '../secret-manager-options.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { sleep } from '../time/deadline.ts'

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
    if (state.fails && isHung(request.identity)) await request.ticket?.store('waits for an approval')
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

/** Two hundred identities without a certificate, since the CA was away for a minute and a half. */
async function setUpOutage(options: Partial<SecretManagerOptions> = {}) {
  const bench = await Bench.create({ verifier: believer(), random: () => 0.5, ...options }, answerInstantly)
  const { answer } = bench.ca
  bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'away'))
  const waiting = names('waiting', 200)
  for (const identity of waiting) bench.manager.add(identity)
  await bench.until('retry-planned', 4)
  await bench.clock.advance(90_000)
  return { bench, waiting, answer }
}

test('while the CA is down, one request at a time probes it, about once a second, each time for another identity', async () => {
  const { bench, waiting } = await setUpOutage()
  await using _ = bench
  assert.ok(bench.ca.requests.length <= 95, `asked ${bench.ca.requests.length} times in 90 s`)
  const tried = new Set(bench.ca.requests.map(({ identity }) => identity)).size
  assert.ok(tried >= bench.ca.requests.length - 5, `${bench.ca.requests.length} probes for ${tried} identities`)
  const [first] = bench.manager.entries()
  const until = (first?.renewAt ?? 0) - bench.clock.now()
  assert.ok(until > 0 && until <= 1_000, `the next try is shown in ${until} ms`)
  await bench.clock.advance(600_000)
  const before = bench.ca.requests.length
  await bench.clock.advance(3_600_000)
  const asked = bench.ca.requests.length - before
  assert.ok(asked < 1_300, `asked ${asked} times in an hour`)
  const tries = waiting.map(name => bench.ca.requests.filter(({ identity }) => identity === name).length)
  assert.ok(
    Math.max(...tries) - Math.min(...tries) <= 3,
    `tries of each: ${Math.min(...tries)} to ${Math.max(...tries)}`,
  )
})

test('when it is back all identities have a certificate within two seconds, streamed ones first, as many at once as it takes', async () => {
  const { bench, waiting, answer } = await setUpOutage({ concurrency: 16 })
  await using _ = bench
  const streamed = waiting.slice(100, 150)
  const watches = streamed.map(identity => bench.manager.watch({ kind: 'identity', identity }, () => {}))
  let inFlight = 0
  let most = 0
  bench.ca.requests.length = 0
  bench.ca.answer = async (request, sign) => {
    most = Math.max(most, ++inFlight)
    await sleep(bench.clock, 20)
    inFlight--
    return await answer(request, sign)
  }
  await bench.clock.advance(2_000)
  assert.equal(bench.count('issued'), waiting.length)
  assert.equal(most, 16)
  const order = bench.ca.requests.map(({ identity }) => identity)
  const last = Math.max(...streamed.map(identity => order.indexOf(identity)))
  assert.ok(last <= streamed.length, `the last streamed one was number ${last}`)
  assert.equal(new Set(order).size, order.length, 'nobody was asked for twice')
  for (const watch of watches) watch[Symbol.dispose]()
})

test('identities that still have their certificates are renewed over a tenth of what is left, at most ten seconds, streamed ones in the first half', async () => {
  await using bench = await Bench.create({ verifier: believer(LIFETIME), random: () => 0.5 }, answerInstantly)
  const { answer } = bench.ca
  const all = names('all', 100)
  for (const identity of all) bench.manager.add(identity)
  await bench.until('issued', all.length)
  const streamed = all.slice(0, 50)
  const watches = streamed.map(identity => bench.manager.watch({ kind: 'identity', identity }, () => {}))
  bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'away'))
  await bench.clock.advance(450_000)
  bench.ca.answer = answer
  const isBack = () => bench.events.some(({ event }) => event.kind === 'ca-back')
  for (let second = 0; second < 5 && !isBack(); second++) await bench.clock.advance(1_000)
  assert.ok(isBack())
  const counts = () => {
    const renewed = all.filter(identity => (bench.served(identity)?.notBefore ?? 0) > bench.clock.now() - 20_000)
    return { streamed: renewed.filter(one => streamed.includes(one)).length, all: renewed.length }
  }
  await bench.clock.advance(5_000)
  assert.deepEqual(counts().streamed, streamed.length)
  assert.ok(counts().all < 75, `${counts().all} after five seconds`)
  await bench.clock.advance(5_000)
  assert.deepEqual(counts().all, all.length)
  assert.equal(bench.count('withdrawn'), 0)
  for (const watch of watches) watch[Symbol.dispose]()
})

test('an outage is reported once, and its end with its beginning', async () => {
  const { bench, answer } = await setUpOutage()
  await using _ = bench
  bench.ca.answer = answer
  await bench.clock.advance(2_000)
  const outage = bench.events.filter(({ event }) => event.kind === 'ca-down' || event.kind === 'ca-back')
  assert.deepEqual(
    outage.map(({ name, event }) => [name, event.kind]),
    [
      ['spiffe://cluster.local', 'ca-down'],
      ['spiffe://cluster.local', 'ca-back'],
    ],
  )
  const lasted = bench.clock.now() - bench.last('ca-back').downSince
  assert.ok(lasted >= 90_000, `${lasted} ms`)
})

test('probes that hang do not hold up the next: a CA that comes back on another connection is found within seconds', async () => {
  const { bench, waiting, answer } = await setUpOutage()
  await using _ = bench
  bench.ca.answer = () => new Promise(() => {})
  await bench.clock.advance(60_000)
  bench.ca.answer = answer
  await bench.clock.advance(5_000)
  assert.equal(bench.count('issued'), waiting.length)
})

test('a CA that refuses is not down: each of its refusals is an answer', async () => {
  const { bench } = await setUpOutage()
  await using _ = bench
  bench.ca.answer = () => Promise.reject(new CAError('denied', 'not this one'))
  await bench.clock.advance(2_000)
  assert.equal(bench.manager.entries().filter(({ lastFailure }) => lastFailure?.code === 'denied').length, 200)
})

const missing = () => new CAError('unavailable', 'its file is not there', { local: true })

test('failures whose cause is on this node say nothing of the CA, however many identities have them', async () => {
  await using bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
  const { answer } = bench.ca
  bench.ca.answer = (request, sign) => (isHung(request.identity) ? Promise.reject(missing()) : answer(request, sign))
  for (const identity of hung) bench.manager.add(identity)
  await bench.clock.advance(600_000)
  assert.equal(bench.count('ca-down'), 0)
  bench.manager.add(WEB)
  await bench.clock.advance(0)
  assert.ok(bench.served(WEB), 'the CA is asked at once')
})

test('in an outage they neither end it nor delay the next probe', async () => {
  const { bench, waiting, answer } = await setUpOutage()
  await using _ = bench
  const away = bench.ca.answer
  const broken = new Set<SpiffeId>(waiting.slice(90, 120))
  bench.ca.answer = (request, sign) => (broken.has(request.identity) ? Promise.reject(missing()) : away(request, sign))
  await bench.clock.advance(60_000)
  assert.equal(bench.count('ca-back'), 0)
  bench.ca.answer = (request, sign) =>
    broken.has(request.identity) ? Promise.reject(missing()) : answer(request, sign)
  await bench.clock.advance(2_000)
  assert.equal(bench.count('issued'), waiting.length - broken.size)
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

test('a stream that asks has a CA that is down probed soon', async () => {
  const { bench, waiting, answer } = await setUpOutage()
  await using _ = bench
  await bench.clock.advance(3_600_000)
  bench.ca.answer = answer
  const [first = WEB] = waiting
  await bench.clock.advance(500)
  using _watch = bench.manager.watch({ kind: 'identity', identity: first }, () => {})
  bench.manager.request(first)
  await bench.clock.advance(0)
  assert.ok(bench.served(first), 'a CA that is back is asked at once')
})

for (const hasOne of [true, false])
  test(`a request of a stream hurries an identity that has ${hasOne ? 'a certificate that it fails to renew' : 'no certificate'}, once in ten seconds at most`, async () => {
    await using bench = await Bench.create({ verifier: believer(3_600_000), random: () => 0.5 }, answerInstantly)
    if (hasOne) await bench.add(WEB)
    bench.ca.answer = () => Promise.reject(new CAError('denied', 'not this one'))
    if (hasOne) await bench.toNextDue(WEB)
    else bench.manager.add(WEB)
    await bench.until('retry-planned', 1)
    const before = bench.ca.requests.length
    for (let second = 0; second < 60; second++) {
      bench.request(WEB)
      await bench.clock.advance(1_000)
    }
    const asked = bench.ca.requests.length - before
    assert.ok(asked >= 5 && asked <= 7, `asked ${asked} times in a minute`)
  })

test('an identity whose files appear has its certificate within a second, though a thousand others still miss theirs', async () => {
  await using bench = await Bench.create({ verifier: believer(), random: () => 0.5 }, answerInstantly)
  const { answer } = bench.ca
  const written = new Set<string>()
  bench.ca.answer = (request, sign) =>
    written.has(request.identity)
      ? answer(request, sign)
      : Promise.reject(new CAError('unavailable', 'its files are not there'))
  const all = names('late', 1_000)
  for (const identity of all) bench.manager.add(identity)
  await bench.clock.advance(600_000)
  const [identity = WEB] = all.slice(500)
  written.add(identity)
  bench.ca.changeCertificates(identity)
  await bench.clock.advance(1_000)
  assert.ok(bench.served(identity))
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { CAError } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { sleep } from '../time/deadline.ts'

const ALL = Array.from({ length: 1_000 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/lost/sa/sa-${index}`)
const LIFETIME_MS = 60_000
const ANSWER_MS = 20
/** The answer that ends the outage waits for a connection. */
const FIRST_ANSWER_MS = 800

/** A thousand identities whose certificates ended while the CA was away for a minute and a half; now it is back. */
async function setUp() {
  const bench = await Bench.create({ verifier: believer(LIFETIME_MS), random: () => 0.5 }, answerInstantly)
  const { answer } = bench.ca
  const seen = { firstAnswerAt: 0, requestedAt: [] as number[], inFlight: 0, most: 0, refuses: false }
  let answerMs = ANSWER_MS
  const reachable: typeof answer = async (request, sign) => {
    seen.requestedAt.push(bench.clock.now())
    seen.most = Math.max(seen.most, ++seen.inFlight)
    await sleep(bench.clock, answerMs)
    seen.inFlight--
    if (seen.refuses) throw new CAError('rate-limited', 'no room', { retryAfterMs: 100 })
    if (answerMs === FIRST_ANSWER_MS) seen.firstAnswerAt = bench.clock.now()
    answerMs = ANSWER_MS
    return await answer(request, sign)
  }
  bench.ca.answer = reachable
  for (const identity of ALL) bench.manager.add(identity)
  while (bench.count('issued') < ALL.length) await bench.clock.advance(ANSWER_MS)
  bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'away'))
  await bench.clock.advance(90_000)
  assert.equal(bench.manager.entries().filter(({ secret }) => secret).length, 0)
  Object.assign(seen, { most: 0, requestedAt: [] })
  answerMs = FIRST_ANSWER_MS
  bench.ca.answer = reachable
  return { bench, seen }
}

test('a thousand identities without certificates are requested within half a second of the first answer, 64 at once', async () => {
  const { bench, seen } = await setUp()
  await using _ = bench
  await bench.clock.advance(4_000)
  assert.equal(bench.count('issued'), 2 * ALL.length)
  const ms = Math.max(...seen.requestedAt) - seen.firstAnswerAt
  assert.ok(ms <= 500, `the last was requested after ${ms} ms`)
  assert.equal(seen.most, 64)
})

test('and also where this process is busy with other things for most of that time', async () => {
  const { bench, seen } = await setUp()
  await using _ = bench
  while (seen.firstAnswerAt === 0) await bench.clock.advance(100)
  let rounds = 0
  while (bench.count('issued') < 2 * ALL.length) {
    await bench.clock.busy(300)
    await bench.clock.advance(ANSWER_MS)
    rounds++
  }
  assert.ok(rounds <= 30, `${rounds} rounds`)
  assert.equal(seen.most, 64)
})

test('a CA that is back and says that it has no room gets half as much at once each time', async () => {
  const { bench, seen } = await setUp()
  await using _ = bench
  while (bench.count('issued') < ALL.length + 500) await bench.clock.advance(ANSWER_MS)
  assert.equal(seen.most, 64)
  seen.refuses = true
  const most: number[] = []
  for (let pause = 0; pause < 6; pause++) {
    await bench.clock.advance(200)
    most.push(seen.most)
    seen.most = seen.inFlight
  }
  assert.ok(
    most.slice(2).every(count => count <= 32),
    `at most ${most.join()} at once`,
  )
  assert.equal(most.at(-1), 1)
  seen.refuses = false
  await bench.clock.advance(20_000)
  assert.equal(bench.manager.entries().filter(({ secret }) => secret).length, ALL.length)
})

test('a client that reconnects on its own is probed every two seconds, one probe at a time, and found back at once', async () => {
  const { bench, seen } = await setUp()
  await using _ = bench
  const connected = Promise.withResolvers<void>()
  const { answer } = bench.ca
  let waiting = 0
  bench.ca.requests.length = 0
  bench.ca.answer = async (request, sign) => {
    const { connectWithinMs: ms } = request
    assert.ok(ms !== undefined && ++waiting === 1, `${waiting} wait`)
    const isBack = await Promise.race([connected.promise.then(() => true), sleep(bench.clock, ms).then(() => false)])
    waiting--
    if (!isBack) throw new CAError('unavailable', 'no connection')
    bench.ca.answer = answer
    return await answer(request, sign)
  }
  await bench.clock.advance(90_000)
  assert.ok(bench.ca.requests.length <= 46, `asked ${bench.ca.requests.length} times in 90 s`)
  connected.resolve()
  await bench.clock.advance(0)
  await bench.clock.advance(FIRST_ANSWER_MS)
  assert.ok(seen.firstAnswerAt > 0)
  await bench.clock.advance(500)
  assert.equal(bench.count('issued'), 2 * ALL.length)
  assert.ok(bench.ca.requests.slice(-10).every(({ connectWithinMs }) => connectWithinMs === undefined))
})

/** A cause that many identities share, whatever their failures look like: how soon all are served again, and what the CA is asked meanwhile. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { CAError, type CAErrorCode } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { sleep } from '../time/deadline.ts'

const ALL = Array.from({ length: 1_000 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/shared/sa/sa-${index}`)
const WITHIN_MS = 3_000
const STEP_MS = 250
const ANSWER_MS = 20

/** A thousand identities with certificates of a minute. */
async function setUp(random = () => 0.5) {
  const bench = await Bench.create({ verifier: believer(60_000), random }, answerInstantly)
  const { answer } = bench.ca
  for (const identity of ALL) bench.manager.add(identity)
  await bench.until('issued', ALL.length)
  return { bench, answer }
}

/** Numbers in [0, 1) that come back after a thousand, and are spread evenly meanwhile. */
function evenly(): () => number {
  let next = 0
  return () => (next = (next + 0.618) % 1)
}

const missing = (bench: Bench) => ALL.filter(identity => !bench.served(identity)).length

/** Time passes until all are served, or for ten minutes. Resolves with how long it was, milliseconds. */
async function untilServed(bench: Bench): Promise<number> {
  let passed = 0
  for (; passed < 600_000 && missing(bench) > 0; passed += STEP_MS) await bench.clock.advance(STEP_MS)
  return passed
}

const causes: readonly (readonly [string, CAErrorCode, { readonly local?: boolean; readonly retryable?: boolean }])[] =
  [
    ['the CA is down', 'unavailable', {}],
    ['the CA cannot check tokens, as its API server is down', 'unauthenticated', {}],
    ['the CA denies everybody', 'denied', {}],
    ['the CA accepts no CSR', 'invalid-csr', {}],
    ['the CA has no room', 'rate-limited', {}],
    ['the CA answers nonsense', 'bad-response', {}],
    ['the CA accepts no lifetime', 'ttl-too-long', {}],
    ['the token file is late', 'unauthenticated', { local: true }],
    ['no tokens are to be had for pods', 'unavailable', { local: true, retryable: true }],
  ]

async function expectServedSoon(bench: Bench): Promise<void> {
  const lost = missing(bench)
  const passed = await untilServed(bench)
  assert.ok(passed <= WITHIN_MS, `${lost} were without a certificate, the last of them for ${passed} ms after the end`)
}

for (const [what, code, options] of causes)
  for (const seconds of code === 'denied' ? [100, 3_600] : [100])
    test(`${what} for ${seconds} s: a thousand identities are served within 3 s of its end`, async () => {
      const { bench: started, answer } = await setUp()
      await using bench = started
      bench.ca.answer = () => Promise.reject(new CAError(code, what, options))
      await bench.clock.advance(seconds * 1_000)
      assert.equal(missing(bench), ALL.length)
      bench.ca.answer = answer
      await expectServedSoon(bench)
    })

test('the clock was wrong for 100 s, so the CA refused all: a thousand identities are served within 3 s after it was set', async () => {
  const { bench: started, answer } = await setUp()
  await using bench = started
  bench.ca.answer = () => Promise.reject(new CAError('unauthenticated', 'the token is not valid yet'))
  await bench.clock.advance(100_000)
  bench.ca.answer = answer
  bench.clock.jump(86_400_000)
  await expectServedSoon(bench)
})

test('a cause that comes back after a success or two keeps nobody any longer', async () => {
  const { bench: started, answer } = await setUp()
  await using bench = started
  let left = 0
  bench.ca.answer = (request, sign) =>
    left-- > 0 ? answer(request, sign) : Promise.reject(new CAError('denied', 'the API server is away'))
  await bench.clock.advance(100_000)
  left = 2
  await bench.clock.advance(100_000)
  bench.ca.answer = answer
  await expectServedSoon(bench)
})

test('those whose token file was wrong while others were served are all tried again once one of them succeeds', async () => {
  const { bench: started, answer } = await setUp(evenly())
  await using bench = started
  const own = ALL.slice(0, 300)
  const others = new Set(ALL.slice(300))
  bench.ca.answer = (request, sign) =>
    others.has(request.identity) ? answer(request, sign) : Promise.reject(new CAError('unauthenticated', 'ended'))
  for (const identity of own) bench.manager.add(identity, { tokenFile: '/run/token' })
  await bench.clock.advance(600_000)
  assert.equal(missing(bench), own.length)
  bench.ca.answer = answer
  await expectServedSoon(bench)
})

test('a stream that asks has the cause probed at once, with its identity', async () => {
  const { bench: started, answer } = await setUp()
  await using bench = started
  bench.ca.answer = () => Promise.reject(new CAError('denied', 'nobody'))
  await bench.clock.advance(3_600_000)
  await bench.clock.advance(700)
  bench.ca.answer = answer
  const last = ALL.at(-1) ?? ALL[0]
  assert.ok(last)
  bench.request(last)
  await bench.clock.advance(500)
  assert.ok(bench.served(last))
})

/** The requests of these identities to the CA within this time. */
async function countRequests(bench: Bench, identities: ReadonlySet<SpiffeId>, ms: number): Promise<number> {
  bench.ca.requests.length = 0
  await bench.clock.advance(ms)
  return bench.ca.requests.filter(({ identity }) => identities.has(identity)).length
}

/** Some of a thousand identities are refused from the start; the others get certificates of a minute. */
async function setUpRefused(refused: ReadonlySet<SpiffeId>, code: CAErrorCode) {
  const bench = await Bench.create({ verifier: believer(60_000), random: () => 0.5 }, answerInstantly)
  const { answer } = bench.ca
  bench.ca.answer = async (request, sign) => {
    await sleep(bench.clock, ANSWER_MS)
    if (refused.has(request.identity)) throw new CAError(code, 'not this one')
    return await answer(request, sign)
  }
  for (const identity of ALL) bench.manager.add(identity)
  return bench
}

/** As many as before identities could share a cause. */
const alone = { denied: 5, unauthenticated: 19 } as const
for (const code of ['denied', 'unauthenticated'] as const)
  test(`one of a thousand that is refused alone (${code}) keeps its backoff`, async () => {
    const refused = new Set(ALL.slice(500, 501))
    await using bench = await setUpRefused(refused, code)
    const asked = await countRequests(bench, refused, 600_000)
    assert.ok(asked <= alone[code], `asked ${asked} times in ten minutes`)
    assert.equal(bench.count('shared-failure'), 0)
  })

test('five hundred of a thousand that are always denied are asked for three times each, then at the longest backoff', async () => {
  const refused = new Set(ALL.filter((_, index) => index % 2 === 0))
  await using bench = await setUpRefused(refused, 'denied')
  const first = await countRequests(bench, refused, 150_000)
  assert.ok(first <= 3 * refused.size, `asked ${first} times in the first 150 s`)
  const later = await countRequests(bench, refused, 1_500_000)
  // Eleven times 150 s begin in this time.
  assert.ok(later <= 11 * refused.size + 50, `asked ${later} times in the next 1500 s`)
})

test('a thousand that are refused for three reasons, while nobody succeeds, cost the CA their longest backoff and a probe in two seconds for each reason', async () => {
  await using bench = await Bench.create({ random: () => 0.5 })
  const codes: readonly CAErrorCode[] = ['denied', 'unauthenticated', 'bad-response']
  bench.ca.answer = ({ identity }) => {
    const code = codes[ALL.indexOf(identity) % codes.length] ?? 'denied'
    return Promise.reject(new CAError(code, 'nobody'))
  }
  for (const identity of ALL) bench.manager.add(identity)
  await bench.clock.advance(600_000)
  const asked = await countRequests(bench, new Set(ALL), 1_500_000)
  // Each at the longest backoff, and the probes.
  const expected = 10 * ALL.length + (codes.length * 1_500) / 2
  assert.ok(asked <= 1.05 * expected, `asked ${asked} times in 1500 s, ${expected} expected`)
})

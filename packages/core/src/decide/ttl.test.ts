import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { CAError } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const HOUR = 3_600_000

/** A CA that gives `mostSeconds` at most; asked for a day. */
async function setUp(mostSeconds: number): Promise<Bench> {
  return await Bench.create({ verifier: believer(), random: () => 0.5 }, ca => {
    answerInstantly(ca)
    const { answer } = ca
    ca.answer = (request, sign) =>
      request.ttlSeconds > mostSeconds
        ? Promise.reject(new CAError('ttl-too-long', `at most ${mostSeconds} s`))
        : answer(request, sign)
  })
}

const asked = ({ ca }: Bench) => ca.requests.map(({ ttlSeconds }) => ttlSeconds)

test('a lifetime that the CA refuses is halved until it takes one, within seconds', async () => {
  await using bench = await setUp(25_000)
  bench.manager.add(WEB)
  await bench.until('retry-planned', 1)
  await bench.clock.advance(2_000)
  assert.ok(bench.served(WEB))
  assert.deepEqual(asked(bench), [86_400, 43_200, 21_600])
})

test('it is remembered for the renewals', async () => {
  await using bench = await setUp(25_000)
  bench.manager.add(WEB)
  await bench.until('retry-planned', 1)
  await bench.clock.advance(48 * HOUR)
  assert.ok(asked(bench).length > 4)
  assert.deepEqual(new Set(asked(bench).slice(2)), new Set([21_600]))
})

test('the next identity that is refused starts with the lifetime that passed, and each one is reported once', async () => {
  await using bench = await setUp(25_000)
  const identities = Array.from({ length: 50 }, (_, index): SpiffeId => `${WEB}-${index}`)
  bench.manager.add(WEB)
  await bench.until('retry-planned', 1)
  await bench.clock.advance(2_000)
  for (const identity of identities) bench.manager.add(identity)
  await bench.until('retry-planned', 52)
  await bench.clock.advance(2_000)
  assert.ok(identities.every(identity => bench.served(identity)))
  assert.equal(bench.ca.requests.length, 3 + 2 * identities.length)
  assert.equal(bench.count('ttl-lowered'), 2)
  assert.deepEqual(bench.last('ttl-lowered'), { kind: 'ttl-lowered', fromSeconds: 43_200, toSeconds: 21_600 })
})

test('an identity whose lifetime the CA takes is asked for it as configured', async () => {
  await using bench = await setUp(25_000)
  const { answer } = bench.ca
  const API: SpiffeId = 'spiffe://cluster.local/ns/default/sa/api'
  bench.ca.answer = (request, sign) => (request.identity === API ? bench.ca.sign(request) : answer(request, sign))
  bench.manager.add(WEB)
  await bench.until('retry-planned', 1)
  await bench.clock.advance(2_000)
  bench.manager.add(API)
  await bench.until('issued', 2)
  assert.equal(asked(bench).at(-1), 86_400)
})

test('below five minutes nothing is asked for: then it is a refusal as any other', async () => {
  await using bench = await setUp(60)
  bench.manager.add(WEB)
  await bench.until('retry-planned', 1)
  await bench.clock.advance(12 * 60_000)
  assert.equal(Math.min(...asked(bench)), 300)
  const halvings = [86_400, 43_200, 21_600, 10_800, 5_400, 2_700, 1_350, 675, 337]
  assert.deepEqual(asked(bench).slice(0, 9), halvings)
  assert.ok(asked(bench).length <= 9 + 1 + 5, `asked ${asked(bench).length} times`)
})

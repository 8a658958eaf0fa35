import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../test/manager-bench.ts'
import { type CAChange, CAError, type IssuedCertificate } from './contract/ca-client.ts'
import type { SecretItem } from './secrets/secret-item.ts'
import type { SpiffeId } from './spiffe/spiffe-id.ts'
import { privateKeyOf } from './testing/reveal-key.ts'
import { makeIssuer } from './testing/test-ca.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const SECOND = 1_000
const HOUR = 3_600_000
const never = new AbortController().signal

const unavailable = () => Promise.reject(new CAError('unavailable', 'the CA is down'))

function subscribe(bench: Bench, identity: SpiffeId): (SecretItem | undefined)[] {
  const items: (SecretItem | undefined)[] = []
  bench.manager.watch({ kind: 'identity', identity }, item => items.push(item))
  return items
}

test('a certificate is issued with its own key, and served with the chain and bundle that belong to it', async () => {
  await using bench = await Bench.create()
  const item = await bench.add(WEB)
  const leaf = new X509Certificate(item.certificateChain)
  assert.equal(leaf.subjectAltName, `URI:${WEB}`)
  assert.ok(leaf.checkPrivateKey(createPrivateKey(privateKeyOf(item))))
  const bundle = bench.manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
  assert.ok(bundle?.kind === 'bundle')
  assert.ok(leaf.checkIssued(new X509Certificate(bundle.trustedCa)))
  assert.equal(item.notAfter, bench.clock.now() + 24 * HOUR)
})

test('asking again answers from the cache, without a word to the CA', async () => {
  await using bench = await Bench.create()
  const item = await bench.add(WEB)
  for (let round = 0; round < 3; round++) assert.equal(await bench.add(WEB), item)
  assert.equal(bench.ca.requests.length, 1)
})

test('a hundred who ask at once make one request and get the same object', async () => {
  await using bench = await Bench.create()
  const items = await Promise.all(Array.from({ length: 100 }, () => bench.add(WEB)))
  assert.equal(new Set(items).size, 1)
  assert.equal(bench.ca.requests.length, 1)
})

test('a certificate is renewed though nobody listens, and the replaced key is wiped', async () => {
  await using bench = await Bench.create()
  const first = await bench.add(WEB)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  assert.notEqual(bench.served(WEB), first)
  assert.deepEqual([first.privateKey.isWiped, bench.served(WEB)?.privateKey.isWiped], [true, false])
})

test('nothing is fetched while nothing is due', async () => {
  await using bench = await Bench.create()
  await bench.add(WEB)
  await bench.clock.advance(9.5 * HOUR)
  assert.equal(bench.ca.requests.length, 1)
})

test('ten thousand that are added at once are all issued, each once, and the one that somebody waits for comes first', async () => {
  let inFlight = 0
  let most = 0
  let issued = 0
  const order: SpiffeId[] = []
  const done = Promise.withResolvers<void>()
  await using bench = await Bench.create({ verifier: believer() }, ca => {
    answerInstantly(ca)
    const { answer } = ca
    ca.answer = async (request, sign) => {
      most = Math.max(most, ++inFlight)
      order.push(request.identity)
      await new Promise(setImmediate)
      inFlight--
      return answer(request, sign)
    }
  })
  bench.manager.events.subscribe(({ event }) => {
    if (event.kind === 'issued' && ++issued === 10_000) done.resolve()
  })
  const identities = Array.from({ length: 10_000 }, (_, i): SpiffeId => `spiffe://cluster.local/ns/load/sa/sa-${i}`)
  for (const identity of identities) bench.manager.add(identity)
  const [last = WEB] = identities.slice(-1)
  using _ = bench.manager.watch({ kind: 'identity', identity: last }, () => {})
  await done.promise
  assert.deepEqual([bench.ca.requests.length, new Set(order).size], [10_000, 10_000])
  assert.ok(order.indexOf(last) <= 16, `it came at place ${order.indexOf(last)}`)
  assert.ok(most > 16 && most <= 64)
})

test('a failed renewal keeps the old certificate until its end, is tried on, and heals', async () => {
  await using bench = await Bench.create()
  const first = await bench.add(WEB)
  const items = subscribe(bench, WEB)
  bench.ca.answer = unavailable
  await bench.toNextDue(WEB)
  await bench.until('ca-error', 1)
  for (let failures = 2; failures <= 8; failures++) {
    await bench.toNextDue(WEB)
    await bench.until('ca-error', failures)
  }
  assert.equal(bench.served(WEB), first)
  assert.equal(first.privateKey.isWiped, false)
  assert.equal(bench.manager.entries()[0]?.lastFailure?.code, 'unavailable')
  bench.ca.answer = (request, sign) => sign(request)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  assert.deepEqual(items, [bench.served(WEB)])
})

test('at its end a certificate is withdrawn, and a later one served again', async () => {
  await using bench = await Bench.create()
  const first = await bench.add(WEB)
  const items = subscribe(bench, WEB)
  bench.ca.answer = unavailable
  await bench.toNextDue(WEB)
  while (bench.served(WEB)) {
    const errors = bench.count('ca-error')
    await bench.toNextDue(WEB)
    await bench.until('ca-error', errors + 1)
  }
  assert.ok(bench.clock.now() >= first.notAfter)
  assert.deepEqual(items, [undefined])
  assert.equal(bench.last('withdrawn').reason, 'expired')
  assert.equal(bench.manager.entries()[0]?.state, 'expired')
  assert.equal(first.privateKey.isWiped, true)
  bench.ca.answer = (request, sign) => sign(request)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  assert.equal(items.length, 2)
  assert.equal(bench.manager.entries()[0]?.state, 'available')
})

test('a certificate that ends after the one that replaced it is served again if the CA gives no other', async () => {
  await using bench = await Bench.create()
  const first = await bench.add(WEB)
  const items = subscribe(bench, WEB)
  bench.ca.answer = (request, sign) => sign(request, { notAfter: bench.clock.now() + 2 * SECOND })
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  const second = bench.served(WEB)
  assert.ok(second && second !== first)
  bench.ca.answer = unavailable
  await bench.clock.advance(3 * SECOND)
  assert.deepEqual([bench.served(WEB), first.privateKey.isWiped, second.privateKey.isWiped], [first, false, true])
  assert.deepEqual([items, bench.count('withdrawn')], [[second, first], 0])

  bench.ca.answer = (request, sign) => sign(request)
  await bench.toNextDue(WEB)
  await bench.until('issued', 3)
  assert.deepEqual([first.privateKey.isWiped, items.length], [true, 3])
})

test('a refused renewal is tried again after half of what is left at the latest, each time sooner, and never at the end', async () => {
  await using bench = await Bench.create({ ttlSeconds: 100 })
  const first = await bench.add(WEB)
  bench.ca.answer = () => Promise.reject(new CAError('denied', 'no'))
  for (let failures = 1; bench.served(WEB); failures++) {
    await bench.toNextDue(WEB)
    await bench.until('retry-planned', failures)
    const left = first.notAfter - bench.clock.now()
    const wait = bench.last('retry-planned').at - bench.clock.now()
    if (left > 0) assert.ok(Math.abs(wait - Math.max(0.5 * left, 500)) < 0.01, `${wait} ms with ${left} ms left`)
    if (left > 1_000) assert.ok(wait <= left - 500, `${wait} ms with ${left} ms left`)
    assert.ok(failures < 12)
  }
  assert.equal(bench.last('retry-planned').at - bench.clock.now(), 150_000)
})

test('one refusal of a CA that was restarted costs no certificate, however little is left of it', async () => {
  await using bench = await Bench.create({ ttlSeconds: 100 })
  await bench.add(WEB)
  const items = subscribe(bench, WEB)
  bench.ca.answer = () => Promise.reject(new CAError('denied', 'not ready yet'))
  await bench.toNextDue(WEB)
  await bench.until('retry-planned', 1)
  bench.ca.answer = (request, sign) => sign(request)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  assert.deepEqual(items, [bench.served(WEB)])
  assert.equal(bench.count('withdrawn'), 0)
})

test('the backoff is per identity, doubles to its limit and starts again after a success', async () => {
  await using bench = await Bench.create()
  await bench.add(API)
  const answerBadly = () => Promise.reject(new CAError('bad-response', 'nonsense'))
  bench.ca.answer = answerBadly
  bench.manager.add(WEB)
  const waits: number[] = []
  for (let failures = 1; failures <= 11; failures++) {
    await bench.until('retry-planned', failures)
    waits.push(bench.last('retry-planned').at - bench.clock.now())
    await bench.toNextDue(WEB)
  }
  assert.deepEqual(waits.slice(0, 3), [500, 1_000, 2_000])
  assert.equal(waits.at(-1), 150_000)
  await bench.until('retry-planned', 12)
  bench.ca.answer = (request, sign) => sign(request)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  bench.ca.answer = answerBadly
  await bench.toNextDue(WEB)
  await bench.until('retry-planned', 13)
  assert.equal(bench.last('retry-planned').at - bench.clock.now(), 500)
})

test('a wait that the CA asks for is kept, and up to twice as long, so that nodes do not come back together', async () => {
  await using bench = await Bench.create({ random: () => 0.25 })
  bench.ca.answer = () => Promise.reject(new CAError('rate-limited', 'slow down', { retryAfterMs: 90_000 }))
  bench.manager.add(WEB)
  await bench.until('retry-planned', 1)
  assert.equal(bench.last('retry-planned').at - bench.clock.now(), 112_500)
})

test('a CA that asks to wait for years, or for no time at all, does not get it', async () => {
  for (const retryAfterMs of [1e12, Number.POSITIVE_INFINITY, Number.NaN, -1_000]) {
    await using bench = await Bench.create({ random: () => 0.5 })
    const wait = () => bench.last('retry-planned').at - bench.clock.now()
    bench.ca.answer = () => Promise.reject(new CAError('rate-limited', 'slow down', { retryAfterMs }))
    bench.manager.add(WEB)
    await bench.until('retry-planned', 1)
    const asked = retryAfterMs > 0
    assert.equal(wait(), asked ? 225_000 : 750)
    bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'slow down', { retryAfterMs }))
    await bench.clock.advance(wait())
    await bench.until('retry-planned', 2)
    assert.equal(wait(), asked ? 150_000 : 500)
  }
})

test('a CA that asks to wait is left alone by all, and then asked again', async () => {
  await using bench = await Bench.create({ random: () => 0 })
  bench.ca.answer = () => Promise.reject(new CAError('rate-limited', 'slow down', { retryAfterMs: 90_000 }))
  bench.manager.add(WEB)
  await bench.until('retry-planned', 1)
  bench.ca.answer = (request, sign) => sign(request)
  bench.manager.add(API)
  await bench.clock.advance(89_000)
  assert.equal(bench.ca.requests.length, 1)
  await bench.clock.advance(1_000)
  await bench.until('issued', 2)
})

test('a CA that has no room is left alone for longer each time, and its refusals count against no identity', async () => {
  await using bench = await Bench.create({ random: () => 0 })
  bench.ca.answer = () => Promise.reject(new CAError('rate-limited', 'no room'))
  for (let index = 0; index < 20; index++) bench.manager.add(`spiffe://cluster.local/ns/default/sa/sa-${index}`)
  await bench.until('retry-planned', 4)
  assert.equal(bench.ca.requests.length, 4)
  const waits: number[] = []
  for (let round = 0; round < 6; round++) {
    waits.push(bench.last('retry-planned').at - bench.clock.now())
    await bench.clock.advance(waits.at(-1) ?? 0)
    await bench.until('retry-planned', bench.count('csr-sent'))
  }
  assert.deepEqual(waits, [500, 1_000, 2_000, 4_000, 8_000, 8_000])
  bench.ca.answer = (request, sign) => sign(request)
  await bench.clock.advance(8_000)
  await bench.until('issued', 20)
})

test('two nodes with the same identities renew them at different times', async () => {
  const times = []
  for (const random of [() => 0.1, () => 0.6]) {
    await using bench = await Bench.create({ random })
    bench.manager.add(WEB)
    await bench.until('issued', 1)
    times.push(bench.last('issued').renewAt)
  }
  assert.ok(Math.abs((times[0] ?? 0) - (times[1] ?? 0)) > 60_000)
})

test('a CA that has no room gets half as many requests at once', async () => {
  await using bench = await Bench.create({ concurrency: 16, random: () => 0 })
  const identities = [1, 2, 3, 4].map((index): SpiffeId => `spiffe://cluster.local/ns/default/sa/sa-${index}`)
  bench.ca.answer = () => Promise.reject(new CAError('rate-limited', 'no room'))
  for (const identity of identities) bench.manager.add(identity)
  assert.equal(bench.count('csr-sent'), 4)
  await bench.until('retry-planned', 4)
  bench.ca.answer = () => new Promise(() => {})
  await bench.clock.advance(500)
  assert.equal(bench.count('csr-sent'), 4 + 2)
})

test('a CA that refuses single requests and keeps up gets more at once again', async () => {
  let inFlight = 0
  let most = 0
  await using bench = await Bench.create({ concurrency: 16 })
  bench.ca.answer = unavailable
  for (let index = 0; index < 3; index++) bench.manager.add(`spiffe://cluster.local/ns/default/sa/away-${index}`)
  await bench.until('ca-error', 3)
  await bench.clock.advance(0)
  bench.ca.answer = async () => {
    most = Math.max(most, ++inFlight)
    await new Promise(setImmediate)
    inFlight--
    throw new CAError('denied', 'not for this node')
  }
  for (let index = 0; index < 300; index++) bench.manager.add(`spiffe://cluster.local/ns/default/sa/denied-${index}`)
  await bench.clock.advance(1_000)
  await bench.until('ca-error', 306)
  assert.equal(most, 16)
})

test('a refusal that asking again cannot change waits the longest backoff at once', async () => {
  await using bench = await Bench.create()
  bench.ca.answer = () => Promise.reject(new CAError('denied', 'not you'))
  bench.manager.add(WEB)
  await bench.until('retry-planned', 1)
  assert.equal(bench.last('retry-planned').at - bench.clock.now(), 150_000)
})

test('a bad answer is refused, the certificate in use stays, and the key of the bad one is wiped', async () => {
  await using bench = await Bench.create()
  const first = await bench.add(WEB)
  bench.ca.answer = (request, sign) => sign(request, { names: [{ type: 'url', value: API }] })
  await bench.toNextDue(WEB)
  await bench.until('ca-error', 1)
  assert.equal(bench.last('ca-error').code, 'bad-response')
  assert.match(bench.last('ca-error').message, /instead of the identity asked for/)
  assert.equal(bench.served(WEB), first)
  assert.equal(bench.keys.handedOut.length, 2)
  assert.ok(bench.keys.handedOut[1]?.every(byte => byte === 0))
})

test('a key that comes with an answer is wiped when the answer is refused, and when it comes too late', async () => {
  await using bench = await Bench.create({ timeoutMs: 5_000 })
  const refused = Buffer.from('a key of another certificate')
  bench.ca.answer = async (request, sign) => ({ ...(await sign(request)), privateKey: refused })
  bench.manager.add(WEB)
  await bench.until('ca-error', 1)
  assert.ok(refused.every(byte => byte === 0))
  const late = Promise.withResolvers<IssuedCertificate>()
  bench.ca.answer = () => late.promise
  await bench.toNextDue(WEB)
  await bench.clock.advance(5_000)
  await bench.until('ca-error', 2)
  assert.equal(bench.last('ca-error').code, 'timeout')
  const privateKey = Buffer.from('a key that comes too late')
  late.resolve({ chain: [], privateKey })
  await new Promise(setImmediate)
  assert.ok(privateKey.every(byte => byte === 0))
})

test('a plugin that throws, answers nonsense or never answers costs its deadline at most', async () => {
  await using bench = await Bench.create({ timeoutMs: 5_000 })
  const answers: readonly [() => Promise<IssuedCertificate>, RegExp][] = [
    [() => Promise.reject('a string'), /plugin failed .*a string/],
    [
      () => {
        throw new TypeError('broken')
      },
      /plugin failed .*broken/,
    ],
    [() => Promise.resolve({ chain: [] }), /without asking for the CSR/],
    [() => new Promise(() => {}), /did not answer for .* within 5000 ms/],
  ]
  bench.ca.answer = answers[0]?.[0] ?? unavailable
  bench.manager.add(WEB)
  for (const [index, [answer, message]] of answers.entries()) {
    bench.ca.answer = answer
    if (index > 0) await bench.toNextDue(WEB)
    if (index === 3) await bench.clock.advance(5_000)
    await bench.until('ca-error', index + 1)
    assert.match(bench.last('ca-error').message, message)
  }
  assert.equal(bench.last('ca-error').code, 'timeout')
})

test('one identity that fails does not hold up another', async () => {
  await using bench = await Bench.create()
  bench.ca.answer = (request, sign) => (request.identity === API ? unavailable() : sign(request))
  bench.manager.add(API)
  await bench.until('ca-error', 1)
  await bench.add(WEB)
})

test('forgetting wins over a request in flight: its late answer is dropped and its key wiped', async () => {
  await using bench = await Bench.create()
  const asked = Promise.withResolvers<void>()
  const late = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  bench.ca.answer = async (request, sign) => {
    asked.resolve()
    const answer = await sign(request)
    await late.promise
    answered.resolve()
    return answer
  }
  bench.manager.add(WEB)
  const items = subscribe(bench, WEB)
  const waiting = bench.manager.get({ kind: 'identity', identity: WEB }, { signal: never })
  await asked.promise
  bench.manager.forget(WEB)
  await assert.rejects(waiting, /was forgotten/)
  late.resolve()
  await answered.promise
  await new Promise(setImmediate)
  assert.deepEqual(items, [undefined])
  assert.deepEqual(bench.manager.entries(), [])
  assert.equal(bench.ca.requests[0]?.signal.aborted, true)
  assert.ok(bench.keys.handedOut.every(key => key.every(byte => byte === 0)))
})

test('an identity that was forgotten and added again is not touched by the answer to the first time', async () => {
  await using bench = await Bench.create()
  const first = Promise.withResolvers<void>()
  bench.ca.answer = async (request, sign) => {
    await first.promise
    return sign(request)
  }
  bench.manager.add(WEB)
  await bench.until('csr-sent', 1)
  bench.manager.forget(WEB)
  bench.ca.answer = (request, sign) => sign(request)
  const item = await bench.add(WEB)
  first.resolve()
  await new Promise(setImmediate)
  assert.equal(bench.served(WEB), item)
  assert.equal(bench.count('issued'), 1)
})

test('a certificate from the near future is held until it is valid, and the old one served meanwhile', async () => {
  await using bench = await Bench.create()
  const first = await bench.add(WEB)
  bench.ca.answer = (request, sign) => sign(request, { notBefore: bench.clock.now() + 120 * SECOND })
  await bench.toNextDue(WEB)
  await bench.until('served-later', 1)
  assert.equal(bench.last('served-later').reason, 'not-yet-valid')
  assert.equal(bench.served(WEB), first)
  await bench.clock.advance(119 * SECOND)
  assert.equal(bench.served(WEB), first)
  await bench.clock.advance(1 * SECOND)
  assert.notEqual(bench.served(WEB), first)
})

test('while a certificate from the near future leaves its identity without one, the CA is asked again: another replica may have the right time', async () => {
  await using bench = await Bench.create({ ttlSeconds: 60 })
  const { answer } = bench.ca
  const ahead: typeof answer = (request, sign) =>
    sign(request, { notBefore: bench.clock.now() + 240 * SECOND, notAfter: bench.clock.now() + 300 * SECOND })
  bench.ca.answer = ahead
  bench.manager.add(WEB)
  await bench.until('served-later', 1)
  bench.ca.answer = answer
  await bench.clock.advance(1 * SECOND)
  await bench.until('issued', 2)
  assert.ok(bench.served(WEB))

  bench.ca.answer = ahead
  await bench.toNextDue(WEB)
  await bench.until('served-later', 2)
  bench.ca.answer = answer
  await bench.clock.advance(1 * SECOND)
  await bench.until('issued', 4)
  const { notAfter } = bench.last('issued')
  await bench.clock.advance(29 * SECOND)
  assert.deepEqual([bench.count('withdrawn'), bench.served(WEB)?.notAfter], [0, notAfter])
})

test('of several certificates from the near future the soonest is served, and the CA is asked no more often than after failures', async () => {
  await using bench = await Bench.create()
  const start = bench.clock.now()
  bench.ca.answer = (request, sign) => sign(request, { notBefore: bench.clock.now() + 240 * SECOND })
  bench.manager.add(WEB)
  for (let issued = 1; bench.clock.now() < start + 239 * SECOND; issued = bench.count('issued')) {
    await bench.until('served-later', issued)
    await bench.clock.advance(1 * SECOND)
  }
  assert.equal(bench.served(WEB), undefined)
  await bench.clock.advance(1 * SECOND)
  assert.equal(bench.served(WEB)?.notBefore, start + 240 * SECOND)
  assert.ok(bench.ca.requests.length <= 12, `asked ${bench.ca.requests.length} times`)
})

test('under an intermediate that ends before its leaf, renewal and withdrawal follow the intermediate', async () => {
  await using bench = await Bench.create({ ttlSeconds: 300 * 86_400 })
  const start = bench.clock.now()
  const ending = await makeIssuer('CN=ending', start - 3_649 * 24 * HOUR, bench.ca.newestRoot())
  bench.ca.answer = async (request, sign) => {
    const { chain, roots = [] } = await sign(request, { issuer: ending })
    return { chain: [...chain, ending.pem], roots }
  }
  const item = await bench.add(WEB)
  assert.equal(item.notAfter, start + 24 * HOUR)
  const { renewAt } = bench.last('issued')
  assert.ok(renewAt > start && renewAt < start + 16 * HOUR)
  const items = subscribe(bench, WEB)
  bench.ca.answer = unavailable
  await bench.clock.advance(item.notAfter - start - 1)
  assert.equal(bench.served(WEB), item)
  await bench.clock.advance(1)
  assert.equal(bench.served(WEB), undefined)
  assert.deepEqual(items, [undefined])
})

test('a lifetime of 90 days is renewed once in its window, not before and not in a loop', async () => {
  await using bench = await Bench.create({ ttlSeconds: 90 * 86_400 })
  await bench.add(WEB)
  const start = bench.clock.now()
  await bench.clock.advance(35 * 24 * HOUR)
  assert.equal(bench.ca.requests.length, 1)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  const renewed = (bench.clock.now() - start) / (24 * HOUR)
  assert.ok(renewed >= 36 && renewed <= 54, `renewed after ${renewed} days`)
  await bench.clock.advance(35 * 24 * HOUR)
  assert.equal(bench.ca.requests.length, 2)
})

test('a lifetime of five seconds is kept alive without a gap', async () => {
  await using bench = await Bench.create({ ttlSeconds: 5 })
  await bench.add(WEB)
  for (let renewal = 2; renewal < 60; renewal++) {
    await bench.toNextDue(WEB)
    await bench.until('issued', renewal)
    const item = bench.served(WEB)
    assert.ok(item && item.notAfter > bench.clock.now())
  }
  assert.equal(bench.count('withdrawn'), 0)
})

test('a lifetime shorter than a second makes no hot loop', async () => {
  await using bench = await Bench.create()
  bench.ca.answer = (request, sign) => sign(request, { notAfter: bench.clock.now() + 1_000 })
  await bench.add(WEB)
  const { renewAt } = bench.last('issued')
  assert.ok(renewAt - bench.clock.now() >= 1_000)
})

test('after a sleep, what is overdue is renewed at the first tick, once', async () => {
  await using bench = await Bench.create()
  const first = await bench.add(WEB)
  bench.clock.jump(15 * HOUR)
  await bench.clock.advance(0)
  await bench.until('issued', 2)
  assert.equal(bench.ca.requests.length, 2)
  assert.notEqual(bench.served(WEB), first)
})

test('a sleep past the end withdraws the expired certificate at once and brings a new one', async () => {
  await using bench = await Bench.create()
  await bench.add(WEB)
  const items = subscribe(bench, WEB)
  bench.clock.jump(30 * 24 * HOUR)
  await bench.clock.advance(0)
  await bench.until('issued', 2)
  assert.equal(items[0], undefined)
  assert.equal(items.length, 2)
  assert.equal(bench.ca.requests.length, 2)
})

test('a clock set back neither renews in a burst nor withdraws', async () => {
  await using bench = await Bench.create()
  const first = await bench.add(WEB)
  bench.clock.jump(-30 * 24 * HOUR)
  await bench.clock.advance(0)
  assert.equal(bench.served(WEB), first)
  assert.equal(bench.ca.requests.length, 1)
})

test('a subscriber is never called inside subscribe, and not after it left', async () => {
  await using bench = await Bench.create()
  await bench.add(WEB)
  const items: unknown[] = []
  const subscription = bench.manager.watch({ kind: 'identity', identity: WEB }, item => items.push(item))
  assert.deepEqual(items, [])
  subscription[Symbol.dispose]()
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  assert.deepEqual(items, [])
})

test('only the subscribers of an identity are notified of it', async () => {
  await using bench = await Bench.create()
  await bench.add(API)
  await bench.add(WEB)
  const api = subscribe(bench, API)
  const web = subscribe(bench, WEB)
  bench.clock.jump(0)
  const due = (identity: SpiffeId) => bench.manager.entries().find(entry => entry.identity === identity)?.renewAt ?? 0
  const sooner = due(API) < due(WEB) ? API : WEB
  await bench.toNextDue(sooner)
  await bench.until('issued', 3)
  assert.equal(api.length + web.length, 1)
  assert.equal((sooner === API ? api : web).length, 1)
})

test('a subscriber to an identity that is not held yet is notified once it is', async () => {
  await using bench = await Bench.create()
  const items = subscribe(bench, WEB)
  const item = await bench.add(WEB)
  assert.deepEqual(items, [item])
  bench.manager.forget(WEB)
  const again = await bench.add(WEB)
  assert.deepEqual(items, [item, undefined, again])
})

test('an unknown identity has no secret, no call to the CA and no request', async () => {
  await using bench = await Bench.create()
  const name = { kind: 'identity', identity: WEB } as const
  assert.equal(bench.manager.knows(name), false)
  assert.equal(bench.manager.current(name), undefined)
  bench.manager.watch(name, () => assert.fail('called'))[Symbol.dispose]()
  await assert.rejects(bench.manager.get(name, { signal: never }), TypeError)
  assert.equal(bench.ca.requests.length, 0)
})

test('waiting for a secret ends with the reason of its signal', async () => {
  await using bench = await Bench.create()
  bench.ca.answer = () => new Promise(() => {})
  bench.manager.add(WEB)
  const controller = new AbortController()
  const waiting = bench.manager.get({ kind: 'identity', identity: WEB }, { signal: controller.signal })
  controller.abort(new Error('gave up'))
  await assert.rejects(waiting, /gave up/)
})

test('the path of an identity’s own token reaches the plugin, which reads it at use', async () => {
  await using bench = await Bench.create()
  bench.manager.add(WEB, { tokenFile: '/tokens/web' })
  await bench.until('issued', 1)
  assert.equal(bench.ca.requests[0]?.tokenFile, '/tokens/web')
})

test('certificates that changed on the CA’s side are fetched again: named ones at once, all of them spread out', async () => {
  const changes: ((change: CAChange) => void)[] = []
  await using bench = await Bench.create({}, ca => {
    ca.subscribe = listener => {
      changes.push(listener)
      return { [Symbol.dispose]() {} }
    }
  })
  await bench.add(API)
  await bench.add(WEB)
  const [tell] = changes
  tell?.({ kind: 'certificates', identities: [WEB] })
  await bench.until('issued', 3)
  assert.equal(bench.events.findLast(({ event }) => event.kind === 'issued')?.name, WEB)

  tell?.({ kind: 'certificates' })
  await bench.clock.advance(0)
  assert.equal(bench.count('csr-sent'), 3, 'a node’s renewals must not meet at the CA')
  const due = bench.manager.entries().map(({ renewAt = 0 }) => renewAt - bench.clock.now())
  assert.ok(due.every(wait => wait >= 10 * SECOND && wait <= 610 * SECOND))
  assert.notEqual(due[0], due[1])
})

test('closing forgets every key, aborts what is in flight, and leaves no deadline', async () => {
  const bench = await Bench.create()
  const item = await bench.add(WEB)
  bench.ca.answer = () => new Promise(() => {})
  bench.manager.add(API)
  await bench.until('csr-sent', 2)
  await bench[Symbol.asyncDispose]()
  assert.equal(item.privateKey.isWiped, true)
  assert.equal(bench.ca.requests[1]?.signal.aborted, true)
})

test('no event, entry or error carries a private key', async () => {
  await using bench = await Bench.create()
  await bench.add(WEB)
  bench.ca.answer = async () => {
    throw new Error('the plugin failed')
  }
  await bench.toNextDue(WEB)
  await bench.until('retry-planned', 1)
  const text = JSON.stringify([bench.events, bench.manager.entries()])
  assert.doesNotMatch(text, /PRIVATE KEY/)
  for (const key of bench.keys.handedOut) {
    const body = Buffer.from(key).toString().split('\n')[1] ?? ''
    assert.equal(body.length > 0 && text.includes(body), false)
  }
})

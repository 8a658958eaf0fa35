import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { CAError, type CertificateRequest } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const NEW = 'spiffe://cluster.local/ns/new/sa/web'
const OLD = Array.from({ length: 60 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/old/sa/sa-${index}`)

/** Two CAs as one plugin. It defers the second while over half of the life remains that the certificate had when the first failed. */
async function setUp(identities = OLD, verifier = believer(4 * HOUR)) {
  const isUp = { first: true, second: true }
  const requests: CertificateRequest[] = []
  const bounds = new Map<SpiffeId, number>()
  const bench = await Bench.create({ verifier }, ca => {
    answerInstantly(ca)
    const { answer } = ca
    ca.answer = (request, sign) => {
      requests.push(request)
      if (isUp.first) return answer(request, sign)
      const now = bench.clock.now()
      const { notAfter = now, failingSince = now } = request.replaces ?? {}
      const deferred = (failingSince + notAfter) / 2
      if (deferred > now) bounds.set(request.identity, deferred)
      if (deferred > now) return Promise.reject(new CAError('unavailable', 'the first is down', { deferred }))
      return isUp.second ? answer(request, sign) : Promise.reject(new CAError('unavailable', 'both are down'))
    }
  })
  for (const identity of identities) bench.manager.add(identity)
  await bench.until('issued', identities.length)
  return { bench, isUp, requests, bounds }
}

/** Lets time pass until every renewal waits for the first CA. */
async function putAllOff(bench: Bench): Promise<void> {
  await bench.clock.advance(2 * HOUR + 30 * MINUTE)
  assert.equal(bench.manager.entries().filter(({ state }) => state !== 'failing').length, 0)
}

test('renewals that a plugin puts off say nothing of the CA: it is not down, and a new identity is served at once', async () => {
  const { bench, isUp, requests, bounds } = await setUp()
  await using _ = bench
  assert.equal(requests[0]?.replaces, undefined)
  isUp.first = false
  await putAllOff(bench)
  for (const { identity, lastFailure } of bench.manager.entries())
    assert.equal(lastFailure?.deferred, bounds.get(identity))
  assert.equal(bench.count('ca-down') + bench.count('shared-failure'), 0)
  assert.equal(bench.count('issued'), OLD.length)
  bench.manager.add(NEW)
  await bench.clock.advance(100)
  assert.ok(bench.served(NEW))
})

test('a renewal that is put off is asked for again as any failed one, and goes through once the first CA is back', async () => {
  const { bench, isUp } = await setUp()
  await using _ = bench
  isUp.first = false
  await putAllOff(bench)
  isUp.first = true
  await bench.clock.advance(4 * MINUTE)
  assert.equal(bench.count('issued'), 2 * OLD.length)
})

test('one that is put off is asked for when its time has come, and no later', async () => {
  const [identity = NEW] = OLD
  const { bench, isUp, bounds } = await setUp([identity])
  await using _ = bench
  isUp.first = false
  while (bench.count('issued') < 2) await bench.toNextDue(identity)
  assert.equal(bench.clock.now(), bounds.get(identity))
})

test('while both CAs are down, renewals that are put off take no probe of those who have nothing', async () => {
  const { bench, isUp, requests } = await setUp()
  await using _ = bench
  Object.assign(isUp, { first: false, second: false })
  await putAllOff(bench)
  bench.manager.add(NEW)
  await bench.clock.advance(5 * MINUTE)
  assert.equal(bench.count('ca-down'), 1)
  const probes = requests.filter(({ identity }) => identity === NEW).length
  assert.ok(probes >= 150, `asked for ${probes} times in 5 min`)
  isUp.second = true
  await bench.clock.advance(2_500)
  assert.ok(bench.served(NEW))
})

test('while the CA counts as down, one that is put off is asked for when its time has come', async () => {
  const { bench, isUp, bounds } = await setUp(OLD.slice(0, 5))
  await using _ = bench
  Object.assign(isUp, { first: false, second: false })
  await putAllOff(bench)
  bench.manager.add(NEW)
  await bench.clock.advance(5 * MINUTE)
  assert.equal(bench.count('ca-down'), 1)
  const { answer } = bench.ca
  bench.ca.answer = (request, sign) =>
    request.identity === NEW ? Promise.reject(new CAError('unavailable', 'not for this one')) : answer(request, sign)
  isUp.second = true
  await bench.clock.advance(Math.min(...bounds.values()) - bench.clock.now() - 1)
  assert.equal(bench.count('issued'), 5)
  await bench.clock.advance(15_000)
  assert.equal(bench.count('ca-back'), 1)
  assert.ok(bench.count('issued') > 5)
})

test('the renewal of a certificate whose root was given up is not put off', async () => {
  const [identity = NEW] = OLD
  const { bench, requests } = await setUp([identity])
  await using _ = bench
  await bench.ca.addRoot()
  bench.ca.dropOldRoots()
  await bench.until('roots-changed', 2)
  await bench.toNextDue(identity)
  await bench.clock.advance(0)
  assert.equal(requests.at(-1)?.replaces, undefined)
})

test('the renewal of a certificate that clients refuse is not put off', async () => {
  const { verify } = believer(4 * HOUR)
  const verifier = { verify: (...answer: Parameters<typeof verify>) => ({ ...verify(...answer), clientRefusal: 'no' }) }
  const [identity = NEW] = OLD
  const { bench, requests } = await setUp([identity], verifier)
  await using _ = bench
  await bench.toNextDue(identity)
  await bench.clock.advance(0)
  assert.equal(requests.length, 2)
  assert.equal(requests.at(-1)?.replaces, undefined)
})

test('a renewal that an operator asks for is not put off', async () => {
  const [identity = NEW] = OLD
  const { bench, isUp } = await setUp([identity])
  await using _ = bench
  isUp.first = false
  await bench.clock.advance(HOUR)
  bench.manager.renew(identity)
  await bench.clock.advance(100)
  assert.equal(bench.count('issued'), 2)
})

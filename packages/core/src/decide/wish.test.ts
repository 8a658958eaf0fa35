/** Wishes for an identity's certificate: the key and CSR of its requests, and the renewal after a change. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { Restarts } from '../../test/restarts.ts'
import { CAError } from '../contract/ca-client.ts'
import type { KeyRequest } from '../contract/key-generator.ts'
import { TestKeyGenerator } from '../testing/test-key-generator.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

const namesIn = (bench: Bench) => {
  const { certificateChain = '' } = bench.served(WEB) ?? {}
  const { subjectAltName = '' } = new X509Certificate(certificateChain)
  return subjectAltName.split(', ').slice(1).join(' ')
}

class NotingKeyGenerator extends TestKeyGenerator {
  readonly requests: KeyRequest[] = []

  override generate(...[request, options]: Parameters<TestKeyGenerator['generate']>) {
    this.requests.push(request)
    return super.generate(request, options)
  }
}

test('a request carries the wish of its identity: names, lifetime, and the type of its key', async () => {
  const keyGenerator = new NotingKeyGenerator()
  await using bench = await Bench.create({ keyGenerator })
  const wish = { dnsNames: ['web.example', '*.web.example'], ttlSeconds: 600, keyType: 'rsa-2048' } as const
  bench.manager.add(WEB, { wish })
  await bench.until('issued', 1)
  const [request] = bench.ca.requests
  assert.deepEqual([request?.dnsNames, request?.ttlSeconds], [wish.dnsNames, 600])
  assert.deepEqual(keyGenerator.requests, [
    { type: 'rsa-2048', identity: WEB, dnsNames: wish.dnsNames, format: 'pkcs8' },
  ])
  assert.equal(namesIn(bench), 'DNS:web.example DNS:*.web.example')
})

test('without a wish no names are asked for, and the agent says the rest', async () => {
  await using bench = await Bench.create({ ttlSeconds: 900 })
  await bench.add(WEB)
  assert.deepEqual([bench.ca.requests[0]?.dnsNames, bench.ca.requests[0]?.ttlSeconds], [undefined, 900])
})

test('a wish that keeps changing costs one request a second, and the last one is followed', async () => {
  await using bench = await Bench.create()
  await bench.add(WEB)
  for (let change = 1; change <= 50; change++) {
    bench.manager.add(WEB, { wish: { dnsNames: [`v${change}.example`] } })
    await bench.clock.advance(100)
  }
  // An answer that came late has its successor asked for a second later.
  for (let second = 0; second < 2; second++) {
    await bench.until('issued', bench.ca.requests.length)
    await bench.clock.advance(1_000)
  }
  await bench.until('issued', bench.ca.requests.length)
  assert.equal(namesIn(bench), 'DNS:v50.example')
  assert.ok(bench.ca.requests.length <= 7, `${bench.ca.requests.length} requests in 7 s`)
  const before = bench.ca.requests.length
  bench.manager.add(WEB, { wish: { dnsNames: ['v50.example'] } })
  await bench.clock.advance(10_000)
  assert.equal(bench.ca.requests.length, before, 'the same wish again changes nothing')
})

test('wishes of many that change at once are followed in turn, at most twenty a second, and all are', async () => {
  await using bench = await Bench.create({ verifier: believer() }, answerInstantly)
  const all = Array.from({ length: 200 }, (_, index) => `spiffe://cluster.local/ns/default/sa/sa-${index}` as const)
  for (const identity of all) bench.manager.add(identity)
  await bench.until('issued', all.length)
  for (const identity of all) bench.manager.add(identity, { wish: { dnsNames: [], ttlSeconds: 600 } })
  let before = bench.ca.requests.length
  assert.equal(before, all.length)
  for (let second = 0; second < 12; second++) {
    await bench.clock.advance(1_000)
    assert.ok(bench.ca.requests.length - before <= 22, `${bench.ca.requests.length - before} requests in a second`)
    before = bench.ca.requests.length
  }
  assert.equal(before, 2 * all.length)
})

test('a wish that changes while its request is under way is followed after the answer, good or bad', async () => {
  for (const isGood of [true, false]) {
    await using bench = await Bench.create({ retry: { minMs: 100_000, maxMs: 150_000 } })
    const asked = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    bench.ca.answer = async (request, sign) => {
      bench.ca.answer = (next, signNext) => signNext(next)
      asked.resolve()
      await released.promise
      if (!isGood) throw new CAError('denied', 'may not have old.example')
      return sign(request)
    }
    bench.manager.add(WEB, { wish: { dnsNames: ['old.example'] } })
    await asked.promise
    bench.manager.add(WEB, { wish: { dnsNames: ['new.example'] } })
    released.resolve()
    await bench.until(isGood ? 'issued' : 'ca-error', 1)
    await bench.clock.advance(1_000)
    await bench.until('issued', isGood ? 2 : 1)
    assert.equal(namesIn(bench), 'DNS:new.example')
  }
})

test('a stored certificate for another wish is served while the CA is down, and then replaced', async () => {
  await using restarts = await Restarts.create()
  const { ca, clock } = restarts
  const serials: string[] = []
  {
    await using run = await restarts.start()
    run.bench.manager.add(WEB, { wish: { dnsNames: ['old.example'] } })
    await run.bench.until('issued', 1)
    serials.push(run.bench.served(WEB)?.serialNumber ?? '')
  }
  {
    await using run = await restarts.start()
    run.bench.manager.add(WEB, { wish: { dnsNames: ['old.example'] } })
    await run.bench.until('restored', 1)
    await clock.advance(10_000)
    assert.equal(ca.requests.length, 1, 'the same wish needs no new certificate')
  }
  const { answer } = ca
  ca.answer = () => Promise.reject(new CAError('unavailable', 'the CA is down'))
  await using run = await restarts.start()
  run.bench.manager.add(WEB, { wish: { dnsNames: ['new.example'], keyType: 'ecdsa-p384' } })
  await run.bench.until('restored', 1)
  await clock.advance(1_000)
  await run.bench.until('ca-error', 1)
  assert.equal(run.bench.served(WEB)?.serialNumber, serials[0])
  ca.answer = answer
  await clock.advance(60_000)
  await run.bench.until('issued', 1)
  assert.equal(namesIn(run.bench), 'DNS:new.example')
})

test('a request that waits for an approval is given up for another wish: its CSR has the names of before', async () => {
  await using bench = await Bench.create()
  const csrs: string[] = []
  const notes: (string | undefined)[] = []
  bench.ca.answer = async ({ csr, ticket }) => {
    csrs.push((await csr()).pem)
    notes.push(ticket?.stored)
    await ticket?.store('request-1')
    throw new CAError('unavailable', 'still waits')
  }
  bench.manager.add(WEB, { wish: { dnsNames: ['old.example'] } })
  await bench.until('ca-error', 1)
  await bench.clock.advance(5_000)
  await bench.until('ca-error', 2)
  bench.manager.add(WEB, { wish: { dnsNames: ['new.example'] } })
  const failures = bench.count('ca-error')
  await bench.clock.advance(1_000)
  await bench.until('ca-error', failures + 1)
  assert.equal(csrs[1], csrs[0])
  assert.deepEqual([notes[0], notes[1], notes.at(-1)], [undefined, 'request-1', undefined])
  assert.notEqual(csrs.at(-1), csrs[0])
})

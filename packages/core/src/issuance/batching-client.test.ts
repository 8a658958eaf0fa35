import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import { type CAClient, CAError, type CertificateRequest, type IssuedCertificate } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { gatherIntoBatches } from './batching-client.ts'

const API: SpiffeId = 'spiffe://cluster.local/ns/default/sa/api'

const request = (name: string): CertificateRequest => ({
  identity: `spiffe://cluster.local/${name}`,
  ttlSeconds: 60,
  signal: new AbortController().signal,
  csr: assert.fail,
})

const answerTo = ({ identity }: CertificateRequest): IssuedCertificate => ({ chain: [identity] })

test('requests of one turn go together, at most as many as a batch takes, each with its own answer', async () => {
  const sizes: number[] = []
  const issue = gatherIntoBatches(async batch => {
    sizes.push(batch.length)
    return batch.map(answerTo)
  }, 2)
  const requests = ['a', 'b', 'c', 'd', 'e'].map(request)
  assert.deepEqual(await Promise.all(requests.map(issue)), requests.map(answerTo))
  await issue(request('later'))
  assert.deepEqual(sizes, [2, 2, 1, 1])
})

test('an error for one request is its own, and the others have their certificates', async () => {
  const denied = new CAError('denied', 'not b')
  const issue = gatherIntoBatches(
    async batch => batch.map(one => (one.identity.endsWith('b') ? denied : answerTo(one))),
    10,
  )
  const [a, b] = await Promise.allSettled(['a', 'b'].map(name => issue(request(name))))
  assert.equal(a?.status, 'fulfilled')
  assert.deepEqual(b, { status: 'rejected', reason: denied })
})

test('a call that fails, or throws at once, fails all of its batch', async () => {
  for (const fail of [() => Promise.reject(new Error('down')), () => assert.fail('down')]) {
    const issue = gatherIntoBatches(fail, 10)
    const answers = await Promise.allSettled(['a', 'b'].map(name => issue(request(name))))
    assert.deepEqual(
      answers.map(answer => answer.status === 'rejected' && /down/.test(answer.reason.message)),
      [true, true],
    )
  }
})

test('an answer that is missing is a bad-response of that request', async () => {
  const issue = gatherIntoBatches(async batch => batch.slice(1).map(answerTo), 10)
  const [, last] = await Promise.allSettled(['a', 'b'].map(name => issue(request(name))))
  assert.ok(last?.status === 'rejected' && last.reason instanceof CAError && last.reason.code === 'bad-response')
})

test('the manager sends requests in batches where the CA takes them, and one that fails leaves the others their certificates', async () => {
  const sizes: number[] = []
  const issueBatch: CAClient['issueBatch'] = async requests => {
    sizes.push(requests.length)
    const answer = (request: CertificateRequest) =>
      request.identity === API ? new CAError('denied', 'not this one') : bench.ca.sign(request)
    return await Promise.all(requests.map(answer))
  }
  await using bench = await Bench.create({ batch: 4 }, ca =>
    Object.assign(ca, { issue: () => assert.fail('it has a batch'), issueBatch }),
  )
  const others = Array.from({ length: 9 }, (_, i): SpiffeId => `spiffe://cluster.local/ns/load/sa/sa-${i}`)
  const identities = [API, ...others]
  for (const identity of identities) bench.manager.add(identity)
  await bench.until('issued', 9)
  await bench.until('ca-error', 1)
  assert.deepEqual(sizes, [4, 4, 2])
  assert.equal(bench.last('ca-error').code, 'denied')
  assert.deepEqual(
    identities.filter(identity => bench.served(identity) === undefined),
    [API],
  )
})

test('a CA client with batches is asked one by one where the plugin has declared none', async () => {
  let issued = 0
  await using bench = await Bench.create({}, ca => {
    Object.assign(ca, { issueBatch: () => assert.fail('not declared') })
    ca.answer = (request, sign) => {
      issued++
      return sign(request)
    }
  })
  await bench.add(API)
  assert.equal(issued, 1)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gatherIntoBatches } from './batching-client.ts'
import { CAError, type CertificateRequest, type IssuedCertificate } from './ca-client.ts'

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

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CAError, type CAErrorCode, type IssuedCertificate } from '@livery/core'
import { FakeClock, TestCA } from '@livery/core/testing'
import { workloadRequest } from '../testing/workload-request.ts'
import { FailoverClient } from './failover-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

async function bench() {
  const clock = new FakeClock()
  const [first, second] = [await TestCA.create(clock), await TestCA.create(clock)]
  const lines: string[] = []
  const log = (line: string) => void lines.push(line)
  const client = new FailoverClient({
    members: [
      { name: 'first', client: first },
      { name: 'second', client: second },
    ],
    clock,
    log: { warn: log, info: log },
    failures: 3,
    openMs: 30_000,
    maxOpenMs: 300_000,
  })
  const issue = async (signal?: AbortSignal): Promise<IssuedCertificate> =>
    client.issue({ ...(await workloadRequest(WEB)), ...(signal && { signal }) })
  const issuerOf = async () => ((await issue()).roots?.[0] === first.roots[0] ? 'first' : 'second')
  return { clock, first, second, client, issue, issuerOf, lines }
}

function failing(code: CAErrorCode): TestCA['answer'] {
  return () => Promise.reject(new CAError(code, `says ${code}`))
}

const signing: TestCA['answer'] = (request, sign) => sign(request)

test('the first CA issues as long as it answers', async () => {
  const { second, issuerOf } = await bench()
  assert.equal(await issuerOf(), 'first')
  assert.equal(second.requests.length, 0)
})

for (const code of ['unavailable', 'timeout', 'rate-limited', 'bad-response'] as const)
  test(`a CA that says ${code} is followed by the next one, with the same CSR`, async () => {
    const { first, second, issuerOf } = await bench()
    first.answer = failing(code)
    assert.equal(await issuerOf(), 'second')
    assert.equal(first.requests[0], second.requests[0])
  })

for (const code of ['denied', 'invalid-csr', 'ttl-too-long', 'unauthenticated'] as const)
  test(`a refusal with ${code} is final: the next CA is not asked to get around it`, async () => {
    const { first, second, issue } = await bench()
    first.answer = failing(code)
    await assert.rejects(issue(), { name: 'CAError', code })
    assert.equal(second.requests.length, 0)
  })

test('after three failures in a row a CA is left alone, and asked again by one request after its time', async () => {
  const { clock, first, issuerOf, lines } = await bench()
  first.answer = failing('unavailable')
  for (let i = 0; i < 5; i++) assert.equal(await issuerOf(), 'second')
  assert.equal(first.requests.length, 3)
  await clock.advance(30_000)
  assert.equal(await issuerOf(), 'second')
  assert.equal(first.requests.length, 4)
  // The trial failed: twice as long.
  await clock.advance(30_000)
  await issuerOf()
  assert.equal(first.requests.length, 4)
  await clock.advance(30_000)
  first.answer = signing
  assert.equal(await issuerOf(), 'first')
  assert.equal(await issuerOf(), 'first')
  assert.deepEqual(
    lines.map(line => /answers again/.test(line)),
    [false, true],
  )
})

test('while one request is on trial, the others go to the next CA', async () => {
  const { clock, first, issue, issuerOf } = await bench()
  first.answer = failing('unavailable')
  for (let i = 0; i < 3; i++) await issuerOf()
  await clock.advance(30_000)
  const { promise: until, resolve: answer } = Promise.withResolvers<void>()
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>()
  first.answer = async (request, sign) => {
    ask()
    await until
    return sign(request)
  }
  const trial = issue()
  await asked
  assert.equal(await issuerOf(), 'second')
  answer()
  await trial
  assert.equal(await issuerOf(), 'first')
})

test('a trial that nobody waits for any more does not keep the CA away for ever', async () => {
  const { clock, first, issue, issuerOf } = await bench()
  first.answer = failing('unavailable')
  for (let i = 0; i < 3; i++) await issuerOf()
  await clock.advance(30_000)
  const controller = new AbortController()
  first.answer = request =>
    new Promise((_, reject) => {
      request.signal.addEventListener('abort', () => reject(request.signal.reason))
      controller.abort(new Error('forgotten'))
    })
  await assert.rejects(issue(controller.signal), /forgotten/)
  first.answer = signing
  assert.equal(await issuerOf(), 'first')
})

test('when no CA issues, the error names each with its reason, and an open breaker does not leave nobody to ask', async () => {
  const { first, second, issue } = await bench()
  first.answer = failing('unavailable')
  second.answer = failing('timeout')
  for (let i = 0; i < 4; i++)
    await assert.rejects(issue(), (error: unknown) => {
      assert.ok(error instanceof CAError && error.retryable)
      return /first: says unavailable/.test(error.message)
    })
  assert.equal(first.requests.length, 4)
})

test('the trust bundle is that of all, and keeps the last known roots of one that does not answer', async () => {
  const { first, second, client } = await bench()
  const signal = new AbortController().signal
  const all = [...first.roots, ...second.roots]
  assert.deepEqual(await client.trustBundle?.({ signal }), all)
  second.trustBundle = () => Promise.reject(new CAError('unavailable', 'down'))
  await first.addRoot()
  assert.deepEqual(await client.trustBundle?.({ signal }), [...first.roots, ...second.roots])
  first.trustBundle = second.trustBundle
  await assert.rejects(async () => client.trustBundle?.({ signal }), { code: 'unavailable' })
})

test('changes of every CA are told', async () => {
  const { first, second, client } = await bench()
  let changes = 0
  using _subscription = client.subscribe?.(() => changes++)
  await first.addRoot()
  await second.addRoot()
  assert.equal(changes, 2)
})

test('with a CA that tells no roots there is no common list, and each certificate brings those of its CA', async () => {
  const clock = new FakeClock()
  const listing = await TestCA.create(clock)
  const silent = await TestCA.create(clock)
  listing.answer = async (request, sign) => ({ chain: (await sign(request)).chain })
  const withoutList = { issue: silent.issue.bind(silent), [Symbol.asyncDispose]: () => silent[Symbol.asyncDispose]() }
  const client = new FailoverClient({
    members: [
      { name: 'listing', client: listing },
      { name: 'silent', client: withoutList },
    ],
    clock,
    log: { warn: assert.fail, info: assert.fail },
    failures: 3,
    openMs: 1_000,
    maxOpenMs: 1_000,
  })
  assert.equal(client.trustBundle, undefined)
  assert.deepEqual((await client.issue(await workloadRequest(WEB))).roots, listing.roots)
})

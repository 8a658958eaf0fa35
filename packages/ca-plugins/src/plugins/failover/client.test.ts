import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  type CACapabilities,
  type CAClient,
  CAError,
  type CAErrorCode,
  type CAMember,
  type CertificateRequest,
  type IssuedCertificate,
  KEY_TYPES,
} from '@livery/core/plugin'
import { FakeClock, TestCA } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { KitTicket } from '../../conformance/kit/kit-request.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { FailoverClient } from './client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

const CAPABILITIES: CACapabilities = { roots: 'push', ttl: 'honoured', san: 'csr', keyTypes: KEY_TYPES }

function member(name: string, client: CAClient, capabilities: Partial<CACapabilities> = {}): CAMember {
  return { name, client, capabilities: { ...CAPABILITIES, ...capabilities } }
}

/** A CA that reports its roots only beside certificates. */
function withoutList(ca: TestCA): CAClient {
  return { issue: request => ca.issue(request), [Symbol.asyncDispose]: () => ca[Symbol.asyncDispose]() }
}

interface BenchOptions {
  readonly members?: (first: TestCA, second: TestCA) => readonly CAMember[]
  readonly rootsFile?: string
  readonly afterMs?: number
}

async function bench({ members = both, ...options }: BenchOptions = {}) {
  const clock = new FakeClock()
  const [first, second] = [await TestCA.create(clock), await TestCA.create(clock)]
  const changes: string[] = []
  const taken: string[] = []
  const client = new FailoverClient({
    members: members(first, second),
    clock,
    timeoutMs: 10_000,
    failures: 3,
    openMs: 30_000,
    maxOpenMs: 300_000,
    onBreaker: ({ name }, { kind }) => changes.push(`${name} ${kind}`),
    onTakenOver: ({ name }) => taken.push(name),
    ...options,
  })
  const offer = async (parts: Partial<CertificateRequest> = {}): Promise<IssuedCertificate> =>
    client.issue({ ...(await workloadRequest(WEB)), ...parts })
  /** As core does it where it finds nothing wrong. */
  const issue = async (parts: Partial<CertificateRequest> = {}): Promise<IssuedCertificate> => {
    const issued = await offer(parts)
    issued.accepted?.()
    return issued
  }
  const issuerOf = async () => {
    const { chain } = await issue()
    const leaf = new X509Certificate(chain[0] ?? '')
    return leaf.verify(new X509Certificate(first.newestRoot().pem).publicKey) ? 'first' : 'second'
  }
  const roots = () => client.trustBundle({ signal: new AbortController().signal })
  return { clock, first, second, client, offer, issue, issuerOf, roots, changes, taken }
}

const both = (first: TestCA, second: TestCA) => [member('first', first), member('second', second)]

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
    assert.ok(first.requests[0])
    assert.equal(first.requests[0].csr, second.requests[0]?.csr)
  })

for (const code of ['denied', 'invalid-csr', 'ttl-too-long', 'unauthenticated'] as const)
  test(`a refusal with ${code} is final: the next CA is not asked to get around it`, async () => {
    const { first, second, issue } = await bench()
    first.answer = failing(code)
    await assert.rejects(issue(), { name: 'CAError', code })
    assert.equal(second.requests.length, 0)
  })

test('after three failures in a row a CA is left alone, and asked again by one request after its time', async () => {
  const { clock, first, issuerOf, changes, taken } = await bench()
  first.answer = failing('unavailable')
  for (let i = 0; i < 5; i++) assert.equal(await issuerOf(), 'second')
  assert.equal(first.requests.length, 3)
  assert.equal(taken.length, 5)
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
  assert.deepEqual(changes, ['first open', 'first half-open', 'first open', 'first half-open', 'first closed'])
})

test('a CA that asks to be left alone is, while the next one issues', async () => {
  const { clock, first, issuerOf, changes } = await bench()
  first.answer = () => Promise.reject(new CAError('rate-limited', 'no room', { retryAfterMs: 5_000 }))
  for (let i = 0; i < 3; i++) assert.equal(await issuerOf(), 'second')
  assert.equal(first.requests.length, 1)
  first.answer = signing
  await clock.advance(5_000)
  assert.equal(await issuerOf(), 'first')
  assert.deepEqual(changes, ['first open', 'first half-open', 'first closed'])
})

test('an answer that was under way when its CA asked to be left alone does not end that time', async () => {
  const { first, issue, issuerOf } = await bench()
  const asked = Promise.withResolvers<void>()
  const late = Promise.withResolvers<void>()
  first.answer = async (request, sign) => {
    asked.resolve()
    await late.promise
    return sign(request)
  }
  const before = issue()
  await asked.promise
  first.answer = () => Promise.reject(new CAError('rate-limited', 'no room', { retryAfterMs: 5_000 }))
  assert.equal(await issuerOf(), 'second')
  late.resolve()
  await before
  assert.equal(await issuerOf(), 'second')
  assert.equal(first.requests.length, 2)
})

test('when every CA asks to be left alone none is asked, and the error says until when', async () => {
  const { clock, first, second, issue } = await bench()
  const refusing = (retryAfterMs: number) => () =>
    Promise.reject(new CAError('rate-limited', 'no room', { retryAfterMs }))
  first.answer = refusing(5_000)
  second.answer = refusing(9_000)
  await assert.rejects(issue(), { code: 'rate-limited', retryAfterMs: 5_000 })
  await clock.advance(1_000)
  await assert.rejects(issue(), { code: 'rate-limited', retryAfterMs: 4_000 })
  assert.equal(first.requests.length + second.requests.length, 2)
})

test('a CA that asks to be left alone for a year is asked again after the longest rest of its breaker', async () => {
  const { clock, first, second, issue, issuerOf } = await bench()
  const refusing = () => Promise.reject(new CAError('rate-limited', 'no room', { retryAfterMs: 365 * 86_400_000 }))
  first.answer = refusing
  second.answer = refusing
  await assert.rejects(issue(), { code: 'rate-limited', retryAfterMs: 300_000 })
  await clock.advance(299_999)
  await assert.rejects(issue(), { code: 'rate-limited', retryAfterMs: 1 })
  assert.equal(first.requests.length, 1)
  // The one on trial says the same, and rests as long as before.
  await clock.advance(1)
  await assert.rejects(issue(), { code: 'rate-limited', retryAfterMs: 300_000 })
  assert.equal(first.requests.length, 2)
  await clock.advance(300_000)
  first.answer = signing
  assert.equal(await issuerOf(), 'first')
})

test('a CA without room beside one that is down leaves the list without room, not down', async () => {
  const { first, second, issue } = await bench()
  first.answer = () => Promise.reject(new CAError('rate-limited', 'no room', { retryAfterMs: 5_000 }))
  second.answer = failing('unavailable')
  await assert.rejects(issue(), { code: 'rate-limited', retryAfterMs: 5_000 })
})

test('a CA that never answers is given up after its time, and the next one asked', async () => {
  const { clock, first, issuerOf } = await bench()
  first.answer = () => new Promise(() => {})
  const issuer = issuerOf()
  await clock.waitForDeadline(time => time === clock.now() + 10_000)
  await clock.advance(10_000)
  assert.equal(await issuer, 'second')
})

test('the deadline of a request counts against the CA, unless it waits for an approval', async () => {
  for (const asynchronous of [false, true]) {
    const { first, issue, changes } = await bench({
      members: (one, other) => [member('first', one, { asynchronous }), member('second', other)],
    })
    for (let i = 0; i < 3; i++) {
      const controller = new AbortController()
      first.answer = () => {
        controller.abort(new CAError('timeout', 'the deadline'))
        return new Promise(() => {})
      }
      await assert.rejects(issue({ signal: controller.signal }), { code: 'timeout' })
    }
    assert.deepEqual(changes, asynchronous ? [] : ['first open'])
  }
})

test('a plugin that throws something else has failed, and the next CA is asked', async () => {
  const { first, second, issue, issuerOf } = await bench()
  first.answer = () => Promise.reject(new TypeError('undefined is not a function'))
  assert.equal(await issuerOf(), 'second')
  second.answer = failing('timeout')
  await assert.rejects(issue(), /first: Its plugin failed: undefined is not a function/)
})

test('what fails on this node is followed by the next CA, and says nothing of the first', async () => {
  const { first, second, issue, issuerOf, changes } = await bench()
  first.answer = () => Promise.reject(new CAError('unavailable', 'a file is missing', { local: true }))
  for (let i = 0; i < 5; i++) assert.equal(await issuerOf(), 'second')
  assert.deepEqual(changes, [])
  assert.equal(first.requests.length, 5)
  second.answer = first.answer
  await assert.rejects(issue(), { code: 'unavailable', local: true })
  second.answer = failing('unavailable')
  await assert.rejects(issue(), { code: 'unavailable', local: false })
})

test('a refusal by a standby CA is reported with the reason', async () => {
  const { first, second, issue } = await bench()
  first.answer = failing('unavailable')
  second.answer = failing('denied')
  await assert.rejects(issue(), {
    code: 'denied',
    message: 'says denied It was asked because others failed. first: says unavailable',
  })
})

test('each CA finds its own note in the ticket of a request, and drops none but its own', async () => {
  const { first, second, issue } = await bench()
  const notes: (string | undefined)[] = []
  const ticket = new KitTicket()
  const noting =
    (note: string | undefined): TestCA['answer'] =>
    async request => {
      notes.push(request.ticket?.stored)
      await request.ticket?.store(note)
      throw new CAError('unavailable', 'pending')
    }
  first.answer = noting('csr-1')
  second.answer = noting(undefined)
  await assert.rejects(issue({ ticket }))
  await assert.rejects(issue({ ticket }))
  assert.deepEqual(notes, [undefined, undefined, 'csr-1', undefined])
  first.answer = noting(undefined)
  await assert.rejects(issue({ ticket }))
  assert.equal(ticket.stored, undefined)
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
  await assert.rejects(issue({ signal: controller.signal }), /forgotten/)
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
  const { first, second, roots } = await bench()
  assert.deepEqual(await roots(), [...first.roots, ...second.roots])
  second.trustBundle = () => Promise.reject(new CAError('unavailable', 'down'))
  await first.addRoot()
  assert.deepEqual(await roots(), [...first.roots, ...second.roots])
  first.trustBundle = second.trustBundle
  await assert.rejects(roots(), { code: 'unavailable' })
})

test('the list is partial until each CA that lists its roots has done so', async () => {
  const { second, client, roots } = await bench()
  const { trustBundle } = second
  second.trustBundle = () => Promise.reject(new CAError('unavailable', 'down'))
  await roots()
  assert.equal(client.isListPartial, true)
  second.trustBundle = trustBundle
  await roots()
  assert.equal(client.isListPartial, false)
  second.trustBundle = () => Promise.reject(new CAError('unavailable', 'down again'))
  await roots()
  assert.equal(client.isListPartial, false, 'its last list stands')
})

test('a CA that does not report its roots delays those of the others for its deadline only, and is asked again soon', async () => {
  const { clock, first, second, client, roots } = await bench()
  const { trustBundle } = second
  second.trustBundle = () => new Promise(() => {})
  const { promise: changed, resolve: change } = Promise.withResolvers<string>()
  using _subscription = client.subscribe(({ kind }) => change(kind))
  const listedNow = roots()
  await clock.waitForDeadline(time => time === clock.now() + 10_000)
  await clock.advance(10_000)
  assert.deepEqual(await listedNow, first.roots)
  second.trustBundle = trustBundle
  await clock.advance(30_000)
  assert.equal(await changed, 'roots')
  assert.deepEqual(await roots(), [...first.roots, ...second.roots])
})

test('changes of every CA are reported, until the client is closed', async () => {
  const { first, second, client } = await bench()
  let changes = 0
  using _subscription = client.subscribe(() => changes++)
  await first.addRoot()
  await second.addRoot()
  assert.equal(changes, 2)
  await client[Symbol.asyncDispose]()
  await first.addRoot()
  assert.equal(changes, 2)
})

test('the first certificate of a CA whose roots are not known yet brings them along', async () => {
  const { first, second, issue } = await bench()
  first.answer = failing('unavailable')
  second.answer = async (request, sign) => ({ chain: (await sign(request)).chain })
  assert.deepEqual((await issue()).roots, second.roots)
  assert.equal((await issue()).roots, undefined)
})

test('the roots of a CA without a list are reported as they came with its certificates, and kept when it changes them', async () => {
  const { first, second, client, issuerOf, roots } = await bench({
    members: (one, other) => [member('first', withoutList(one)), member('second', other)],
  })
  assert.deepEqual(await roots(), second.roots)
  let changes = 0
  using _subscription = client.subscribe(() => changes++)
  await issuerOf()
  assert.equal(changes, 1)
  const [old = ''] = first.roots
  await first.addRoot()
  first.dropOldRoots()
  await issuerOf()
  assert.deepEqual(await roots(), [old, ...first.roots, ...second.roots])
})

test('roots that came with an answer are not reported before it is accepted, nor more than 100 of one CA', async () => {
  const { first, client, offer, issue, roots } = await bench({
    members: (one, other) => [member('first', withoutList(one)), member('second', other)],
  })
  const listed = await roots()
  let changes = 0
  using _subscription = client.subscribe(() => changes++)
  first.answer = async (request, sign) => ({ ...(await sign(request)), roots: ['evil', ...first.roots] })
  await offer()
  assert.deepEqual([await roots(), changes], [listed, 0])
  for (let round = 0; round < 5; round++) {
    const junk = Array.from({ length: 60 }, (_, index) => `junk ${round} ${index}`)
    first.answer = async (request, sign) => ({ ...(await sign(request)), roots: [...first.roots, ...junk] })
    await issue()
  }
  const listedNow = await roots()
  assert.equal(listedNow.length, listed.length + 100)
  assert.ok(!listedNow.includes('evil'))
  first.answer = async (request, sign) => ({ ...(await sign(request)), rootsFor: 'identity', roots: ['own'] })
  await issue()
  assert.deepEqual(await roots(), listedNow)
})

test('the roots of the file are always reported, and a file that cannot be read is named', async t => {
  const folder = temporaryFolder(t)
  const rootsFile = join(folder, 'roots.pem')
  const { second, client, roots } = await bench({
    rootsFile,
    members: (one, other) => [member('first', withoutList(one)), member('second', withoutList(other))],
  })
  await assert.rejects(roots(), { code: 'unavailable', message: /roots\.pem/ })
  await writeFile(rootsFile, second.roots.join(''))
  using _subscription = client.subscribe(() => {})
  assert.deepEqual(await roots(), second.roots)
})

test('once it is closed it asks nobody, and open requests end', async () => {
  const { first, client, issue, roots } = await bench()
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>()
  first.answer = () => {
    ask()
    return new Promise(() => {})
  }
  const ended = assert.rejects(issue(), /closed/)
  await asked
  await Promise.all([client[Symbol.asyncDispose](), client[Symbol.asyncDispose](), ended])
  await Promise.all([issue(), roots()].map(refused => assert.rejects(refused, /closed/)))
  assert.throws(() => client.subscribe(() => {}), /closed/)
})

const HOUR = 3_600_000

test('a renewal waits for the first CA until half is left of what was left when it failed, and goes to the next one then', async () => {
  const { clock, first, second, issue, issuerOf, taken } = await bench()
  first.answer = failing('unavailable')
  const failingSince = clock.now()
  const notAfter = failingSince + 4 * HOUR
  const deferred = failingSince + 2 * HOUR
  await assert.rejects(issue({ replaces: { notAfter } }), {
    code: 'unavailable',
    deferred,
    message: /says unavailable/,
  })
  await clock.advance(2 * HOUR - 1)
  const replaces = { notAfter, failingSince }
  for (let i = 0; i < 5; i++) await assert.rejects(issue({ replaces }), { code: 'unavailable', deferred })
  assert.equal(first.requests.length, 3, 'an open breaker is not asked')
  assert.equal(second.requests.length, 0)
  assert.equal(await issuerOf(), 'second', 'who has nothing does not wait')
  await clock.advance(1)
  await issue({ replaces })
  assert.equal(taken.length, 2)
})

test('a renewal that waits goes to the first CA once that answers', async () => {
  const { clock, first, second, issue } = await bench()
  first.answer = failing('timeout')
  const replaces = { notAfter: clock.now() + 4 * HOUR, failingSince: clock.now() }
  for (let i = 0; i < 3; i++) await assert.rejects(issue({ replaces }), { code: 'timeout' })
  first.answer = signing
  await clock.advance(30_000)
  await issue({ replaces })
  assert.equal(second.requests.length, 0)
})

test('after says how long a renewal waits, half of what was left at the longest, and a clock that was set back does not add to it', async () => {
  const { clock, first, issue } = await bench({ afterMs: HOUR })
  first.answer = failing('unavailable')
  const now = clock.now()
  await assert.rejects(issue({ replaces: { notAfter: now + 4 * HOUR } }), { deferred: now + HOUR })
  await assert.rejects(issue({ replaces: { notAfter: now + HOUR } }), { deferred: now + HOUR / 2 })
  const replaces = { notAfter: now + 4 * HOUR, failingSince: now + 9 * HOUR }
  await assert.rejects(issue({ replaces }), { deferred: now + HOUR })
})

test('with after: 0s nobody waits, and a refusal is final for one that could', async () => {
  const at = await bench({ afterMs: 0 })
  at.first.answer = failing('unavailable')
  const replaces = { notAfter: at.clock.now() + HOUR }
  await at.issue({ replaces })
  assert.equal(at.second.requests.length, 1)
  const { first, issue } = await bench()
  first.answer = failing('denied')
  await assert.rejects(issue({ replaces }), { code: 'denied', deferred: undefined })
})

test('a first CA that asks to be left alone keeps renewals waiting, and what fails on this node stays local', async () => {
  const { clock, first, issue } = await bench()
  const replaces = { notAfter: clock.now() + HOUR }
  const deferred = clock.now() + HOUR / 2
  first.answer = () => Promise.reject(new CAError('unavailable', 'a file is missing', { local: true }))
  await assert.rejects(issue({ replaces }), { code: 'unavailable', local: true, deferred })
  first.answer = () => Promise.reject(new CAError('rate-limited', 'no room', { retryAfterMs: 60_000 }))
  for (let i = 0; i < 2; i++)
    await assert.rejects(issue({ replaces }), { code: 'rate-limited', local: false, deferred })
})

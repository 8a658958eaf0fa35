/** Verdicts that come from another thread: what they were asked about may have changed meanwhile. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Bench } from '../../test/manager-bench.ts'
import type { CertificateVerifier, Expectation, VerifiedChain } from '../contract/certificate-verifier.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { makeIssuer } from '../testing/test-ca.ts'
import { nodeCertificateVerifier } from '../x509/node-chain-reader.ts'

const web: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const TIMEOUT_MS = 5_000

/** Answers a question when the test says so, with the verdict on what was asked. */
class SlowVerifier implements CertificateVerifier {
  readonly asked: { readonly anchors: Expectation['anchors']; readonly answer: () => void }[] = []

  verify(): VerifiedChain {
    throw new Error('An issuance must not wait for a verdict on the main thread')
  }

  verifyLater(chain: readonly string[], expected: Expectation): Promise<VerifiedChain> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.asked.push({ anchors: expected.anchors, answer: resolve })
    return promise.then(() => nodeCertificateVerifier.verify(chain, expected))
  }

  /** The question number `count`, once it is asked. */
  async question(count: number) {
    while (this.asked.length < count) await nextTurn()
    return this.asked[count - 1]
  }
}

async function start() {
  const verifier = new SlowVerifier()
  const bench = await Bench.create({ verifier, timeoutMs: TIMEOUT_MS })
  bench.manager.add(web)
  return { verifier, bench }
}

async function untilRoots(bench: Bench, count: number): Promise<void> {
  while (bench.manager.bundles()[0]?.roots.length !== count) await nextTurn()
}

test('a certificate is served when its verdict has come, and not before', async () => {
  const { bench: started, verifier } = await start()
  await using bench = started
  const question = await verifier.question(1)
  await bench.clock.advance(TIMEOUT_MS - 1)
  assert.equal(bench.served(web), undefined)
  question?.answer()
  await bench.until('issued', 1)
  assert.ok(bench.served(web))
})

test('a chain is judged again by the roots of now, if they have changed since it was asked about', async () => {
  const { bench: started, verifier } = await start()
  await using bench = started
  const first = await verifier.question(1)
  await bench.ca.addRoot()
  await untilRoots(bench, 2)
  first?.answer()
  const second = await verifier.question(2)
  assert.deepEqual([first?.anchors.length, second?.anchors.length], [1, 2])
  assert.equal(bench.served(web), undefined)
  second?.answer()
  await bench.until('issued', 1)
  assert.equal(verifier.asked.length, 2)
})

test('a root that comes with one answer of a turn is known to the verdicts on the others', async () => {
  const { bench: started, verifier } = await start()
  await using bench = started
  const other = await makeIssuer('CN=other', bench.clock.now())
  bench.ca.answer = async (request, sign) => ({
    ...(await sign(request)),
    roots: request.identity === web ? bench.ca.roots : [...bench.ca.roots, other.pem],
  })
  bench.manager.add('spiffe://cluster.local/ns/default/sa/api')
  await verifier.question(2)
  // The answer with two roots is judged first.
  for (const { answer } of verifier.asked.toSorted((a, b) => b.anchors.length - a.anchors.length)) answer()
  const again = await verifier.question(3)
  assert.equal(again?.anchors.length, 2)
  again?.answer()
  await bench.until('issued', 2)
})

test('a verdict that comes after the identity was forgotten serves nothing', async () => {
  const { bench: started, verifier } = await start()
  await using bench = started
  const question = await verifier.question(1)
  bench.manager.forget(web)
  question?.answer()
  for (let turn = 0; turn < 10; turn++) await nextTurn()
  assert.equal(bench.count('issued'), 0)
  assert.equal(bench.manager.entry(web), undefined)
})

test('a verdict that does not come costs no more than the deadline of the request', async () => {
  const { bench: started, verifier } = await start()
  await using bench = started
  await verifier.question(1)
  await bench.clock.advance(TIMEOUT_MS)
  await bench.until('ca-error', 1)
  assert.equal(bench.last('ca-error').code, 'timeout')
  assert.equal(bench.served(web), undefined)
})

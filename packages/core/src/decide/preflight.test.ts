/** Leaves that clients would refuse with the roots that they are served. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import type { CertificateVerifier } from '../contract/certificate-verifier.ts'
import type { SecretManagerOptions } from '../secret-manager-options.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { makeIssuer, type TestCA, type TestIssuer } from '../testing/test-ca.ts'
import { nodeCertificateVerifier } from '../x509/node-chain-reader.ts'
import { splitCertificates } from '../x509/pem.ts'

const LIFE = 3_600_000
const web: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const REFUSAL = 'a root of the name of its issuer has not signed it'

/** Asks as a client does that takes any root of an issuer's name for the issuer, where no key identifier says more. */
const asClient: CertificateVerifier = {
  verify(chain, expected) {
    const verified = nodeCertificateVerifier.verify(chain, expected)
    const top = new X509Certificate(splitCertificates(verified.chainPem).at(-1) ?? '')
    const isMistaken = expected.anchors.some(root => top.checkIssued(root) && !top.verify(root.publicKey))
    return isMistaken ? { ...verified, clientRefusal: REFUSAL } : verified
  },
}

function create(options: Partial<SecretManagerOptions> = {}, prepare?: (ca: TestCA) => void): Promise<Bench> {
  return Bench.create({ verifier: asClient, ttlSeconds: LIFE / 1_000, rotation: { jitter: 0 }, ...options }, prepare)
}

/** A CA with the name of the root, and another key; neither has key identifiers. */
function namesakeOf(bench: Bench): Promise<TestIssuer> {
  return makeIssuer(bench.ca.newestRoot().subject, bench.clock.now())
}

/** Makes the CA sign under `issuer`, which it does not list: it comes with each answer. */
function signUnder({ ca }: Bench, issuer: TestIssuer): void {
  ca.answer = async (request, sign) => ({
    ...(await sign(request, { issuer })),
    roots: [...ca.roots, issuer.pem],
  })
}

const rootsOf = (bench: Bench) => bench.manager.bundles().flatMap(({ roots }) => roots).length
const entryOf = (bench: Bench) => bench.manager.entry(web)

/** Lets what was planned by then happen. */
async function until(bench: Bench, time: number): Promise<void> {
  for (;;) {
    const due = entryOf(bench)?.renewAt ?? Number.POSITIVE_INFINITY
    if (due > time) break
    const done = bench.count('issued') + bench.count('ca-error')
    await bench.toNextDue(web)
    while (bench.count('issued') + bench.count('ca-error') === done) await new Promise(setImmediate)
  }
  await bench.clock.advance(time - bench.clock.now())
}

test('the certificate in use stays while it is good, and nothing of the answer is kept', async () => {
  await using bench = await create()
  const first = await bench.add(web)
  signUnder(bench, await namesakeOf(bench))
  await bench.toNextDue(web)
  await bench.until('preflight-failed', 1)
  await bench.until('retry-planned', 1)
  assert.deepEqual(bench.last('preflight-failed'), { kind: 'preflight-failed', reason: REFUSAL, isServed: false })
  assert.equal(bench.served(web), first)
  assert.equal(rootsOf(bench), 1)
  const { code, message } = bench.last('ca-error')
  assert.equal(code, 'bad-response')
  assert.match(message, /^preflight-failed: .* so the one in use stays: a root of the name of its issuer/)
  assert.deepEqual(entryOf(bench)?.preflight, { reason: REFUSAL, isServed: false })
  const next = entryOf(bench)?.renewAt ?? 0
  assert.ok(next > bench.clock.now() && next < bench.clock.now() + 150_001, 'it is tried again soon')
})

test('once the CA answers well again, the next certificate is served and the warning goes', async () => {
  await using bench = await create()
  const first = await bench.add(web)
  signUnder(bench, await namesakeOf(bench))
  await bench.toNextDue(web)
  await bench.until('retry-planned', 1)
  bench.ca.answer = (request, sign) => sign(request)
  await bench.toNextDue(web)
  await bench.until('issued', 2)
  assert.notEqual(bench.served(web), first)
  assert.equal(entryOf(bench)?.preflight, undefined)
})

test('the first certificate is served all the same, and so is the next where the one in use is no better', async () => {
  await using bench = await create()
  signUnder(bench, await namesakeOf(bench))
  const first = await bench.add(web)
  assert.deepEqual(bench.last('preflight-failed'), { kind: 'preflight-failed', reason: REFUSAL, isServed: true })
  assert.deepEqual(entryOf(bench)?.preflight, { reason: REFUSAL, isServed: true })
  await bench.toNextDue(web)
  await bench.until('issued', 2)
  assert.notEqual(bench.served(web), first)
  assert.equal(bench.last('preflight-failed').isServed, true)
  assert.equal(bench.count('ca-error'), 0)
})

test('in the last tenth of the one in use a certificate that some clients take is better than none', async () => {
  await using bench = await create()
  const first = await bench.add(web)
  const receivedAt = bench.clock.now()
  signUnder(bench, await namesakeOf(bench))
  const lastTenth = receivedAt + 0.9 * LIFE
  await until(bench, lastTenth - 1)
  assert.equal(bench.served(web), first)
  assert.ok(bench.count('ca-error') > 5)
  await until(bench, lastTenth + 200_000)
  assert.notEqual(bench.served(web), first)
  assert.equal(bench.last('preflight-failed').isServed, true)
  assert.equal(bench.count('withdrawn'), 0)
})

test('a root that has clients refuse leaves in use is reported when it is served', async () => {
  const listed: string[] = []
  await using bench = await create({}, ca => {
    ca.trustBundle = () => Promise.resolve([...ca.roots, ...listed])
  })
  await bench.add(web)
  listed.push((await namesakeOf(bench)).pem)
  await bench.ca.addRoot()
  await bench.until('preflight-failed', 1)
  const reported = bench.events.find(({ event }) => event.kind === 'preflight-failed')
  assert.deepEqual(reported, {
    name: 'spiffe://cluster.local',
    event: {
      kind: 'preflight-failed',
      reason: `${web}, and others of its issuer and key: ${REFUSAL}`,
      isServed: true,
    },
  })
})

test('a leaf that waits for its root is checked again when that is trusted', async () => {
  const settleMs = 60_000
  const listed: string[] = []
  await using bench = await create({ rotation: { jitter: 0, settleMs } }, ca => {
    ca.trustBundle = () => Promise.resolve([...ca.roots, ...listed])
  })
  const first = await bench.add(web)
  await bench.ca.addRoot()
  bench.manager.renew(web)
  await bench.clock.advance(1_000)
  await bench.until('served-later', 1)
  assert.equal(bench.last('served-later').reason, 'root-announcing')
  listed.push((await namesakeOf(bench)).pem)
  bench.ca.changeRoots()
  await bench.until('roots-changed', 3)
  await bench.clock.advance(settleMs)
  assert.deepEqual(bench.last('preflight-failed'), { kind: 'preflight-failed', reason: REFUSAL, isServed: false })
  assert.equal(bench.served(web), first)
  await bench.clock.advance(0.91 * LIFE)
  assert.notEqual(bench.served(web), first)
})

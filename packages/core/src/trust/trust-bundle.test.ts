import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeIssuer } from '../testing/test-ca.ts'
import { BundleRoots } from './bundle-roots.ts'
import { RootReader } from './root-reader.ts'
import { type NamedIn, TrustBundle } from './trust-bundle.ts'

const NOW = Date.UTC(2026, 0, 1)
const LIFETIME = 9_000
const [a, b, c] = await Promise.all(['CN=a', 'CN=b', 'CN=c'].map(async name => (await makeIssuer(name, NOW)).pem))
assert.ok(a && b && c)

const reader = new RootReader()

async function learn(bundle: TrustBundle, pems: readonly string[], now = NOW) {
  return await hear(bundle, pems, { kind: 'list' }, now)
}

/** An answer with a certificate that is valid for `LIFETIME`. */
async function answer(bundle: TrustBundle, pems: readonly string[], now = NOW) {
  return await hear(bundle, pems, { kind: 'answer', notAfter: now + LIFETIME }, now)
}

async function hear(bundle: TrustBundle, pems: readonly string[], from: NamedIn, now: number) {
  const { roots, rejected } = await reader.read(pems, now)
  const learned = bundle.learn(roots, from, true, now)
  return { ...learned, rejected: [...rejected, ...learned.rejected] }
}

test('order, duplicates, comments and line ends do not make another bundle', async () => {
  const bundle = new TrustBundle('td', 0)
  await learn(bundle, [a, b])
  const { secret } = bundle
  const again = await learn(bundle, [`# comment\n${b.replaceAll('\n', '\r\n')}`, a, b])
  assert.deepEqual(again.added, [])
  assert.equal(bundle.secret, secret)
  const other = new TrustBundle('td', 0)
  await learn(other, [b, a])
  assert.equal(other.secret?.version, secret?.version)
  assert.deepEqual(other.secret?.trustedCa, secret?.trustedCa)
})

test('bad roots are left out with the reason and good ones kept', async () => {
  const bundle = new TrustBundle('td', 0)
  const expired = await makeIssuer('CN=old', NOW - 11 * 365 * 86_400_000)
  const { added, rejected } = await learn(bundle, ['junk', expired.pem, a])
  assert.equal(added.length, 1)
  assert.equal(rejected.length, 2)
  assert.match(rejected.join(), /not an X\.509 certificate.*expired/)
})

test('a list without one good root keeps the old bundle', async () => {
  const bundle = new TrustBundle('td', 0)
  await learn(bundle, [a])
  assert.deepEqual((await learn(bundle, [])).givenUp, [])
  assert.deepEqual((await learn(bundle, ['junk'])).givenUp, [])
  assert.deepEqual(bundle.prune(NOW), [])
  assert.equal(bundle.anchors().length, 1)
})

test('a root that the CA dropped is removed last: not while a leaf under it is in use', async () => {
  const bundle = new TrustBundle('td', 0)
  const old = (await learn(bundle, [a])).added[0]
  assert.ok(old)
  bundle.roots.lease(old.fingerprint)
  assert.deepEqual((await learn(bundle, [b])).givenUp, [old.fingerprint])
  assert.equal(bundle.anchors().length, 2)
  assert.deepEqual(bundle.prune(NOW), [])
  bundle.roots.unlease(old.fingerprint)
  assert.equal(bundle.prune(NOW).length, 1)
  assert.deepEqual(
    bundle.anchors().map(anchor => anchor.pem),
    [b],
  )
})

test('a root that only answers name stays until one leaves it out, then for the overlap and until the leaves of before have ended', async () => {
  for (const overlapMs of [1_000, 2 * LIFETIME]) {
    const bundle = new TrustBundle('td', 0, new BundleRoots(overlapMs))
    await answer(bundle, [a, b])
    await answer(bundle, [a, b], NOW + LIFETIME)
    assert.deepEqual(bundle.prune(NOW + 10 * LIFETIME), [], 'although no leaf here was under it')
    const then = NOW + 10 * LIFETIME
    assert.equal((await answer(bundle, [b], then)).isRenamed, true)
    assert.equal((await answer(bundle, [b], then + 500)).isRenamed, false)
    const end = then + Math.max(overlapMs, LIFETIME)
    assert.deepEqual(bundle.prune(end - 1), [])
    assert.equal(bundle.prune(end).length, 1)
    assert.deepEqual(
      bundle.anchors().map(anchor => anchor.pem),
      [b],
    )
  }
})

test('a short certificate that leaves a root out does not shorten the stay that longer ones under it need', async () => {
  const bundle = new TrustBundle('td', 0, new BundleRoots(1_000))
  await answer(bundle, [a, b])
  await hear(bundle, [b], { kind: 'answer', notAfter: NOW + LIFETIME / 100 }, NOW + 1_000)
  assert.deepEqual(bundle.prune(NOW + LIFETIME - 1), [])
  assert.equal(bundle.prune(NOW + LIFETIME).length, 1)
})

test('answers of a replica that does not know the new root, between answers of one that does, give nothing up', async () => {
  const bundle = new TrustBundle('td', 0, new BundleRoots(1_000))
  for (let now = NOW; now < NOW + 20 * LIFETIME; now += LIFETIME / 2) {
    const { givenUp } = await answer(bundle, now % LIFETIME === 0 ? [a] : [a, b], now)
    assert.deepEqual(givenUp, [])
    assert.deepEqual(bundle.prune(now), [])
  }
  assert.equal(bundle.anchors().length, 2)
})

test('what answers name is not given up by a list that never had it; what the list had is, until an answer names it again', async () => {
  const bundle = new TrustBundle('td', 0, new BundleRoots(1_000))
  await learn(bundle, [a])
  await answer(bundle, [a, b])
  assert.deepEqual((await learn(bundle, [a])).givenUp, [], 'the list may have the new root later')
  await learn(bundle, [a, b])
  assert.equal((await learn(bundle, [b])).givenUp.length, 1)
  await answer(bundle, [a, b])
  assert.deepEqual((await learn(bundle, [b])).givenUp, [])
  assert.deepEqual(bundle.prune(NOW + 10 * LIFETIME), [])
})

test('only a root that is added to others has to settle', async () => {
  const bundle = new TrustBundle('td', 5_000)
  assert.equal((await learn(bundle, [a])).added[0]?.settlesAt, NOW)
  assert.equal((await learn(bundle, [a, b])).added[0]?.settlesAt, NOW + 5_000)
})

test('the last root is never dropped, not even expired', async () => {
  const bundle = new TrustBundle('td', 0)
  await learn(bundle, [a, b, c])
  bundle.prune(NOW + 20 * 365 * 86_400_000)
  assert.equal(bundle.anchors().length, 1)
})

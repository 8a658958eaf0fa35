import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeIssuer } from '../testing/test-ca.ts'
import { RootReader } from './root-reader.ts'
import { TrustBundle } from './trust-bundle.ts'

const NOW = Date.UTC(2026, 0, 1)
const [a, b, c] = await Promise.all(['CN=a', 'CN=b', 'CN=c'].map(async name => (await makeIssuer(name, NOW)).pem))
assert.ok(a && b && c)

const reader = new RootReader()

async function learn(bundle: TrustBundle, pems: readonly string[], complete = true, now = NOW) {
  const { roots, rejected } = await reader.read(pems, now)
  const learned = bundle.learn(roots, { listed: complete, complete, now })
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
  const lease = bundle.lease(old.fingerprint, NOW + 1_000)
  assert.deepEqual((await learn(bundle, [b])).givenUp, [old.fingerprint])
  assert.equal(bundle.anchors().length, 2)
  assert.deepEqual(bundle.prune(NOW), [])
  lease[Symbol.dispose]()
  assert.equal(bundle.prune(NOW).length, 1)
  assert.deepEqual(
    bundle.anchors().map(anchor => anchor.pem),
    [b],
  )
})

test('a root only ever seen beside certificates stays until the last leaf seen under it has ended', async () => {
  const bundle = new TrustBundle('td', 0)
  const old = (await learn(bundle, [a], false)).added[0]
  assert.ok(old)
  bundle.lease(old.fingerprint, NOW + 1_000)[Symbol.dispose]()
  const next = (await learn(bundle, [b], false, NOW + 1)).added[0]
  assert.ok(next)
  assert.deepEqual(bundle.prune(NOW + 2_000), [], 'nothing is in use under the new root yet')
  bundle.lease(next.fingerprint, NOW + 9_000)
  assert.deepEqual(bundle.prune(NOW + 999), [])
  assert.equal(bundle.prune(NOW + 1_000).length, 1)
  assert.equal(bundle.anchors().length, 1)
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

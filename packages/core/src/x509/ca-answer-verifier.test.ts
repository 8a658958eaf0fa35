import 'reflect-metadata'
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { ExtendedKeyUsage, KeyUsageFlags } from '@peculiar/x509'
import { CAError, type CertificateRequest } from '../contract/ca-client.ts'
import type { Expectation } from '../contract/certificate-verifier.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { type CertificateOverrides, makeIssuer, TestCA } from '../testing/test-ca.ts'
import { TestKeyGenerator } from '../testing/test-key-generator.ts'
import { nodeCertificateVerifier } from './node-chain-reader.ts'
import { derToPem } from './pem.ts'

const MINUTE = 60_000
const DAY = 86_400_000
/** The lifetime of the test CA's issuers, but for the minute that they are back-dated. */
const TEN_YEARS = 3_650 * DAY
const identity = 'spiffe://cluster.local/ns/default/sa/web'
const clock = new FakeClock()
const now = clock.now()
const ca = await TestCA.create(clock)
const keys = new TestKeyGenerator()
const key = await keys.generate({ type: 'ecdsa-p256', identity })

const request: CertificateRequest = {
  identity,
  ttlSeconds: 3_600,
  signal: new AbortController().signal,
  csr: () => Promise.resolve({ der: key.csrDer, pem: derToPem(key.csrDer, 'CERTIFICATE REQUEST') }),
}

function expectation(overrides: Partial<Expectation> = {}): Expectation {
  return {
    identity,
    key: { publicKeyDer: key.publicKeyDer },
    anchors: ca.roots.map(pem => new X509Certificate(pem)),
    now,
    ...overrides,
  }
}

async function verify(overrides: CertificateOverrides, expected: Partial<Expectation> = {}) {
  const { chain } = await ca.sign(request, overrides)
  return nodeCertificateVerifier.verify(chain, expectation(expected))
}

async function refuses(reason: RegExp, overrides: CertificateOverrides, expected: Partial<Expectation> = {}) {
  await assert.rejects(verify(overrides, expected), error => {
    assert.ok(error instanceof CAError)
    assert.equal(error.code, 'bad-response')
    assert.match(error.message, reason)
    return true
  })
}

test('a good answer is accepted, with its dates and serial', async () => {
  const verified = await verify({})
  assert.equal(verified.notAfter, now + 3_600_000)
  assert.match(verified.chainPem, /^-----BEGIN CERTIFICATE-----\n/)
  assert.match(verified.version, /^[0-9a-f]{64}$/)
})

test('a certificate for another key is refused', async () => {
  const other = await keys.generate({ type: 'ecdsa-p256', identity })
  await refuses(/for another key/, {}, { key: { publicKeyDer: other.publicKeyDer } })
})

test('a certificate with another, a further, or no URI name is refused', async () => {
  const other = 'spiffe://cluster.local/ns/default/sa/other'
  await refuses(/carries URI:.*other instead of/, { names: [{ type: 'url', value: other }] })
  await refuses(/2 URI names/, { names: [identity, other].map(value => ({ type: 'url', value })) })
  await refuses(/0 URI names/, { names: [{ type: 'dns', value: 'web.default.svc' }] })
  await refuses(/instead of the identity/, { names: [{ type: 'url', value: `${identity}/x` }] })
  // A DNS name made to look like a second entry.
  await refuses(/0 URI names/, { names: [{ type: 'dns', value: `x, URI:${identity}` }] })
})

test('a DNS name beside the one URI is allowed', async () => {
  await verify({
    names: [
      { type: 'dns', value: 'web.default.svc' },
      { type: 'url', value: identity },
    ],
  })
})

test('expired, not yet valid and turned-round dates are refused with all three times', async () => {
  await refuses(/has expired: check the clocks \(now .*, notBefore .*, notAfter /, {
    notBefore: now - MINUTE,
    notAfter: now - 1_000,
  })
  await refuses(/more than 5 minutes from now/, { notBefore: now + 6 * MINUTE, notAfter: now + 60 * MINUTE })
  await refuses(/ends before it begins/, { notBefore: now + 2 * MINUTE, notAfter: now + MINUTE })
})

test('a notBefore up to five minutes ahead is accepted, since clocks differ', async () => {
  assert.equal((await verify({ notBefore: now + 5 * MINUTE })).notBefore, now + 5 * MINUTE)
})

test('a CA certificate and one without server and client authentication are not accepted as a leaf', async () => {
  await refuses(/is a CA certificate/, { ca: true })
  await refuses(/extended key usage lacks/, { usages: [ExtendedKeyUsage.serverAuth] })
})

test('a chain in the wrong order is reported as that, not as a leaf without a name', async () => {
  const issuer = await makeIssuer('CN=issuer', now, ca.newestRoot())
  const { chain } = await ca.sign(request, { issuer })
  const reversed = [issuer.pem, ...chain]
  assert.throws(
    () => nodeCertificateVerifier.verify(reversed, expectation()),
    /one of a CA: the leaf has to come first/,
  )
})

test('a chain that does not end under a known root is refused', async () => {
  const stranger = await makeIssuer('CN=stranger', now)
  await refuses(/does not lead to the one known root/, { issuer: stranger })
  await refuses(/does not lead to any of the 0 known roots/, {}, { anchors: [] })
  // The same name with another key must not do either.
  await refuses(/does not lead/, { issuer: await makeIssuer('CN=root 1', now) })
})

test('intermediates are put in order, and those that lead nowhere, and the root, are left out', async () => {
  const middle = await makeIssuer('CN=middle', now, ca.newestRoot())
  const low = await makeIssuer('CN=low', now, middle)
  const stranger = await makeIssuer('CN=stranger', now)
  const { chain } = await ca.sign(request, { issuer: low })
  const messy = [...chain, middle.pem, stranger.pem, low.pem, ...ca.roots]
  const { chainPem } = nodeCertificateVerifier.verify(messy, expectation())
  const subjects = chainPem.split(/(?=-----BEGIN)/).map(pem => new X509Certificate(pem).subject)
  assert.deepEqual(subjects.slice(1), ['CN=low', 'CN=middle'])
})

test('a leaf behind an expired intermediate is refused', async () => {
  const expired = await makeIssuer('CN=middle', now - 11 * 365 * 86_400_000, ca.newestRoot())
  const { chain } = await ca.sign(request, { issuer: expired })
  assert.throws(() => nodeCertificateVerifier.verify([...chain, expired.pem], expectation()), /does not lead/)
})

test('a chain is good no longer than the certificate on it that ends first, and not before the last one begins', async () => {
  const tomorrow = await makeIssuer('CN=middle', now - TEN_YEARS + DAY, ca.newestRoot())
  const { chain } = await ca.sign(request, { issuer: tomorrow, notAfter: now + 300 * DAY })
  const verified = nodeCertificateVerifier.verify([...chain, tomorrow.pem], expectation())
  assert.equal(verified.notAfter, now + DAY)

  const soon = await makeIssuer('CN=soon', now + 3 * MINUTE, ca.newestRoot())
  const early = await ca.sign(request, { issuer: soon })
  const held = nodeCertificateVerifier.verify([...early.chain, soon.pem], expectation())
  assert.equal(held.notBefore, now + 2 * MINUTE)
  assert.equal(held.notAfter, now + 3_600_000)
})

test('the root counts as well: nothing under it outlives it', async () => {
  const ending = await makeIssuer('CN=ending', now - TEN_YEARS + MINUTE)
  const { chain } = await ca.sign(request, { issuer: ending })
  const anchors = [new X509Certificate(ending.pem)]
  assert.equal(nodeCertificateVerifier.verify(chain, expectation({ anchors })).notAfter, now + MINUTE)
})

test('of two ways to a root the one that is good for longer is served', async () => {
  const root = ca.newestRoot()
  const short = await makeIssuer('CN=middle', now - TEN_YEARS + MINUTE, root)
  const { chain } = await ca.sign(request, { issuer: short })
  const long = await makeIssuer('CN=middle', now, root, short)
  for (const pool of [
    [short.pem, long.pem],
    [long.pem, short.pem],
  ]) {
    const verified = nodeCertificateVerifier.verify([...chain, ...pool], expectation())
    assert.equal(verified.notAfter, now + 3_600_000)
    assert.ok(verified.chainPem.endsWith(long.pem))
  }
})

test('a leaf that lacks digitalSignature or may certify is refused, and the reason is named', async () => {
  await refuses(/key usage lacks digitalSignature/, { keyUsage: KeyUsageFlags.keyEncipherment })
  await refuses(/has keyCertSign or cRLSign/, { keyUsage: KeyUsageFlags.digitalSignature | KeyUsageFlags.keyCertSign })
})

test('an empty, overlong or malformed chain is refused with the reason', async () => {
  const { chain } = await ca.sign(request)
  const leaf = chain[0] ?? ''
  const cases: readonly [readonly string[], RegExp][] = [
    [[], /the chain is empty/],
    [Array(11).fill(leaf), /11 certificates, more than 10/],
    [[leaf, 'x'.repeat(70_000)], /longer than 65536/],
    [['junk'], /element 0 of the chain is not a PEM certificate/],
    [[leaf, 'junk'], /element 1/],
  ]
  for (const [bad, reason] of cases) {
    assert.throws(() => nodeCertificateVerifier.verify(bad, expectation()), reason)
  }
})

test('a source that brings its own key is held to it', async () => {
  const other = await keys.generate({ type: 'ecdsa-p256', identity })
  await verify({}, { key: { privateKeyPem: key.privateKeyPem } })
  await refuses(/belongs to another certificate/, {}, { key: { privateKeyPem: other.privateKeyPem } })
  await refuses(/key that came with it does not parse/, {}, { key: { privateKeyPem: Buffer.from('junk') } })
})

test('the names beside the identity are exactly the DNS names asked for', async () => {
  const uri = { type: 'url', value: identity } as const
  const dns = (value: string) => ({ type: 'dns', value }) as const
  const wanted = { dnsNames: ['a.example', '*.b.example'] }
  await verify({ names: [dns('*.B.example'), uri, dns('a.example')] }, wanted)
  await verify({ names: [uri] }, { dnsNames: [] })
  await verify({ names: [uri, dns('any.example'), { type: 'email', value: 'a@b.example' }] })
  await refuses(/lacks the DNS name \*\.b\.example/, { names: [uri, dns('a.example')] }, wanted)
  await refuses(/DNS:"a\.example", which was not asked for/, { names: [uri, dns('a.example')] }, { dnsNames: [] })
  for (const other of [
    { type: 'email', value: 'a@b.example' },
    { type: 'ip', value: '127.0.0.1' },
  ] as const)
    await refuses(/1 names that are neither/, { names: [uri, other] }, { dnsNames: [] })
})

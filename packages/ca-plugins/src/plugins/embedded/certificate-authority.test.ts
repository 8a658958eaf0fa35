import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type CAChange, CAError, KEY_TYPES } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { workloadRequest } from '../../testing/workload-request.ts'
import type { CertificateAuthorityOptions } from './authority-state.ts'
import { CertificateAuthority } from './certificate-authority.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

function open(options: Partial<CertificateAuthorityOptions> = {}) {
  return CertificateAuthority.open({ clock: clockAt(Date.now()), trustDomain: 'cluster.local', ...options })
}

function clockAt(now: number) {
  const clock = { time: now, now: () => clock.time, at: () => assert.fail('this CA sets no timer') }
  return clock
}

async function signed(authority: CertificateAuthority, identity = WEB, ttlSeconds = 3600) {
  const request = await workloadRequest(identity)
  const { chain, root } = await authority.sign({ identity: request.identity, csr: request.csrDer, ttlSeconds })
  const [leaf = '', ...intermediates] = chain
  return { leaf: new X509Certificate(leaf), leafPem: leaf, intermediates, root, request }
}

for (const keyType of KEY_TYPES)
  test(`a leaf signed with ${keyType} verifies to the root in OpenSSL, strictly`, {
    skip: opensslMissing(),
  }, async t => {
    const authority = await open({ keyType })
    const { leafPem } = await signed(authority)
    await opensslVerify(t, { root: authority.trustBundle().join(''), leaf: leafPem })
  })

test('a leaf under an intermediate verifies to the root in OpenSSL, and the chain carries the intermediate', {
  skip: opensslMissing(),
}, async t => {
  const authority = await open({ intermediate: true })
  const { leafPem, intermediates, root } = await signed(authority)
  assert.equal(intermediates.length, 1)
  await opensslVerify(t, { root, leaf: leafPem, intermediates })
  await assert.rejects(opensslVerify(t, { root, leaf: leafPem }), /unable to get local issuer certificate/)
})

test('a leaf has the profile of an X509-SVID', { skip: opensslMissing() }, async () => {
  const { leaf, leafPem, request } = await signed(await open())
  const text = execFileSync('openssl', ['x509', '-noout', '-text'], { input: leafPem, encoding: 'utf8' })
  assert.match(text, /Subject: *\n/)
  assert.match(text, /Subject Alternative Name: critical\s+URI:spiffe:\/\/cluster\.local\/ns\/default\/sa\/web\n/)
  assert.match(text, /Key Usage: critical\s+Digital Signature, Key Encipherment\n/)
  assert.match(text, /Extended Key Usage:\s+TLS Web Server Authentication, TLS Web Client Authentication\n/)
  assert.match(text, /Basic Constraints: critical\s+CA:FALSE\n/)
  assert.match(text, /Authority Key Identifier/)
  assert.match(text, /Subject Key Identifier/)
  assert.ok(leaf.checkPrivateKey(createPrivateKey(request.privateKeyPem)))
})

test('the SAN is the identity that the caller was given, whatever the CSR names', async () => {
  const authority = await open()
  const request = await workloadRequest(WEB, { csrUri: API })
  const { chain } = await authority.sign({ identity: request.identity, csr: request.csrDer, ttlSeconds: 60 })
  assert.equal(new X509Certificate(chain[0] ?? '').subjectAltName, `URI:${WEB}`)
})

test('a certificate runs from two minutes ago to the wished lifetime from now, across 2050 too', async () => {
  for (const now of [Date.UTC(2030, 5, 1), Date.UTC(2049, 11, 31, 23, 59, 58)]) {
    const { leaf } = await signed(await open({ clock: clockAt(now) }), WEB, 5)
    assert.equal(leaf.validFromDate.getTime(), now - 120_000)
    assert.equal(leaf.validToDate.getTime(), now + 5000)
  }
})

test('a wish beyond the maximum is refused as ttl-too-long and names both numbers', async () => {
  const authority = await open({ maxTtlSeconds: 600 })
  await assert.rejects(
    signed(authority, WEB, 601),
    isCAError('ttl-too-long', /the ttl of 601 s is longer than this CA signs, 600 s\. Lower ttl/),
  )
  await signed(authority, WEB, 600)
})

test('a lifetime that is not positive is a TypeError', async () => {
  const authority = await open()
  for (const ttlSeconds of [0, -1, Number.NaN])
    await assert.rejects(signed(authority, WEB, ttlSeconds), { name: 'TypeError', message: /greater than 0/ })
})

test('no certificate outlives its issuer, and an expired CA says so', async () => {
  const clock = clockAt(Date.UTC(2030, 0, 1))
  const authority = await open({ clock, rootTtlSeconds: 1000 })
  const end = clock.time + 1_000_000
  clock.time += 500_000
  assert.equal((await signed(authority)).leaf.validToDate.getTime(), end)
  clock.time = end
  await assert.rejects(signed(authority), isCAError('unavailable', /has expired at 2030-01-01T00:16:40/))
})

test('a CSR whose signature is broken is refused', async () => {
  const { identity, csrDer } = await workloadRequest(WEB)
  const authority = await open()
  const broken = Buffer.from(csrDer)
  broken[broken.length - 1] = (broken.at(-1) ?? 0) ^ 1
  await assert.rejects(
    authority.sign({ identity, csr: broken, ttlSeconds: 60 }),
    isCAError('invalid-csr', /signature is not by the key/),
  )
})

test('a CSR that is garbage, too long or of a weak key is refused with the reason', async () => {
  const authority = await open()
  const { identity, csrDer } = await workloadRequest(WEB)
  const weak = await workloadRequest(WEB, { keyType: 'rsa-1024' })
  // ecdsa-with-SHA256 (1.2.840.10045.4.3.2) becomes an algorithm that nobody has named.
  const unnamed = Buffer.from(
    Buffer.from(csrDer).toString('hex').replace('2a8648ce3d040302', '2a8648ce3d04037f'),
    'hex',
  )
  const cases: readonly (readonly [Uint8Array, RegExp])[] = [
    [new Uint8Array(), /not a PKCS#10 request/],
    [Buffer.from('garbage'), /not a PKCS#10 request/],
    [csrDer.subarray(0, 50), /not a PKCS#10 request/],
    [Buffer.alloc(20_000), /20000 bytes, more than 16384/],
    [weak.csrDer, /RSA key has 1024 bits/],
    [unnamed, /signature algorithm is neither/],
  ]
  for (const [csr, reason] of cases)
    await assert.rejects(authority.sign({ identity, csr, ttlSeconds: 60 }), isCAError('invalid-csr', reason))
})

test('an identity of another trust domain is denied', async () => {
  await assert.rejects(
    signed(await open(), 'spiffe://other.example/ns/default/sa/web'),
    isCAError('denied', /trust domain cluster\.local/),
  )
})

test('two identities get certificates with different keys, names and serial numbers', async () => {
  const authority = await open()
  const [web, api] = await Promise.all([signed(authority, WEB), signed(authority, API)])
  assert.equal(web.leaf.subjectAltName, `URI:${WEB}`)
  assert.equal(api.leaf.subjectAltName, `URI:${API}`)
  assert.notEqual(web.leaf.serialNumber, api.leaf.serialNumber)
  assert.equal(web.leaf.checkPrivateKey(createPrivateKey(api.request.privateKeyPem)), false)
})

test('a root rotates in three steps: both are trusted, then the new one signs, then the old one is gone', async () => {
  const authority = await open()
  const changes: CAChange[] = []
  using _ = authority.subscribe(change => changes.push(change))
  const [old = ''] = authority.trustBundle()
  const oldId = authority.roots()[0]?.id ?? ''

  const newId = await authority.addRoot()
  assert.equal(authority.trustBundle().length, 2)
  assert.equal((await signed(authority)).root, old)

  await authority.switchTo(newId)
  const { leaf, root } = await signed(authority)
  assert.equal(root, authority.trustBundle()[1])
  assert.ok(leaf.verify(new X509Certificate(root).publicKey))

  await authority.removeRoot(oldId)
  assert.deepEqual(authority.trustBundle(), [root])
  assert.deepEqual(changes, [{ kind: 'roots' }, { kind: 'certificates' }, { kind: 'roots' }])
})

test('the root that signs cannot be removed, and an unknown root is a TypeError that lists the known ones', async () => {
  const authority = await open()
  const id = authority.roots()[0]?.id ?? ''
  await assert.rejects(authority.removeRoot(id), { name: 'TypeError', message: /Switch to another root first/ })
  await assert.rejects(authority.switchTo('nope'), { name: 'TypeError', message: new RegExp(id) })
})

test('a listener that was disposed hears nothing', async () => {
  const authority = await open()
  const changes: CAChange[] = []
  authority.subscribe(change => changes.push(change))[Symbol.dispose]()
  await authority.addRoot()
  assert.deepEqual(changes, [])
})

test('a certificate of this CA authenticates its identity, an expired or foreign one does not', async () => {
  const clock = clockAt(Date.UTC(2030, 0, 1))
  const authority = await open({ clock, intermediate: true })
  const own = await signed(authority)
  const foreign = await signed(await open({ clock }))
  assert.equal(authority.identify(own.leaf.raw), WEB)
  assert.equal(authority.identify(foreign.leaf.raw), undefined)
  clock.time += 3_601_000
  assert.equal(authority.identify(own.leaf.raw), undefined)
})

test('options that cannot work are a TypeError that names the option', async () => {
  await assert.rejects(open({ trustDomain: 'Not Good' }), { name: 'TypeError', message: /trustDomain "Not Good"/ })
  await assert.rejects(open({ maxTtlSeconds: 0 }), { name: 'TypeError', message: /maxTtlSeconds 0/ })
  await assert.rejects(open({ backdateSeconds: -1 }), { name: 'TypeError', message: /backdateSeconds -1/ })
})

function isCAError(code: string, message: RegExp) {
  return (error: unknown) => error instanceof CAError && error.code === code && message.test(error.message)
}

function opensslMissing(): string | false {
  try {
    execFileSync('openssl', ['version'])
    return false
  } catch {
    return 'openssl is not installed'
  }
}

async function opensslVerify(
  t: TestContext,
  { root, leaf, intermediates = [] }: { root: string; leaf: string; intermediates?: readonly string[] },
): Promise<void> {
  const directory = temporaryFolder(t)
  const write = async (name: string, text: string) => {
    await writeFile(join(directory, name), text)
    return join(directory, name)
  }
  const untrusted = intermediates.length ? ['-untrusted', await write('intermediates.pem', intermediates.join(''))] : []
  const rootFile = await write('root.pem', root)
  const leafFile = await write('leaf.pem', leaf)
  execFileSync('openssl', ['verify', '-x509_strict', '-CAfile', rootFile, ...untrusted, leafFile], { stdio: 'pipe' })
}

test('with a clock that was never set no root is made, and nothing is signed', async () => {
  await assert.rejects(
    CertificateAuthority.open({ clock: clockAt(0), trustDomain: 'cluster.local' }),
    /Cannot make a root: the clock says 1970-01-01T00:00:00\.000Z\. Set it, and start again\./,
  )
  let now = Date.now()
  const clock = { ...clockAt(0), now: () => now }
  const authority = await CertificateAuthority.open({ clock, trustDomain: 'cluster.local' })
  const { identity, csrDer } = await workloadRequest('spiffe://cluster.local/ns/default/sa/web')
  now = 86_400_000
  await assert.rejects(authority.sign({ identity, csr: csrDer, ttlSeconds: 60 }), (error: unknown) => {
    assert.ok(error instanceof CAError && error.code === 'unavailable' && error.retryable)
    assert.match(error.message, /the clock says 1970-01-02T00:00:00\.000Z\. Set the clock/)
    return true
  })
})

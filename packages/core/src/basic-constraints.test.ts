import 'reflect-metadata'
import assert from 'node:assert/strict'
import { webcrypto, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { BasicConstraintsExtension, KeyUsageFlags, KeyUsagesExtension, X509CertificateGenerator } from '@peculiar/x509'
import { readBasicConstraints } from './basic-constraints.ts'

const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

async function certificate(...extensions: readonly BasicConstraintsExtension[]): Promise<X509Certificate> {
  const made = await X509CertificateGenerator.createSelfSigned({
    name: 'CN=a name with the bytes \u0055\u001d\u0013 in it',
    keys: await webcrypto.subtle.generateKey(P256, true, ['sign', 'verify']),
    signingAlgorithm: P256,
    extensions: [new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true), ...extensions],
  })
  return new X509Certificate(Buffer.from(made.rawData))
}

test('a CA is one whether or not its key usage lets it sign, and its path length is told', async () => {
  const limited = await certificate(new BasicConstraintsExtension(true, 2, true))
  assert.equal(limited.ca, false)
  assert.deepEqual(readBasicConstraints(limited.raw), { ca: true, pathLength: 2 })
  const unlimited = await certificate(new BasicConstraintsExtension(true))
  assert.deepEqual(readBasicConstraints(unlimited.raw), { ca: true, pathLength: undefined })
})

test('a certificate that says nothing of it is no CA', async () => {
  const none = { ca: false, pathLength: undefined }
  assert.deepEqual(readBasicConstraints((await certificate()).raw), none)
  assert.deepEqual(readBasicConstraints((await certificate(new BasicConstraintsExtension(false))).raw), none)
})

test('what has no end is a RangeError', async () => {
  const { raw } = await certificate(new BasicConstraintsExtension(true))
  assert.throws(() => readBasicConstraints(raw.subarray(0, -1)), RangeError)
  assert.throws(() => readBasicConstraints(Buffer.of(0x30)), RangeError)
  assert.throws(() => readBasicConstraints(Buffer.from([0x30, 0x80, 0, 0])), RangeError)
})

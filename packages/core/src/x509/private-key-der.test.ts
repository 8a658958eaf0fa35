import assert from 'node:assert/strict'
import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { FakeClock } from '../testing/fake-clock.ts'
import { TestCA } from '../testing/test-ca.ts'
import { TestKeyGenerator } from '../testing/test-key-generator.ts'
import { privateKeyToPkcs8 } from './private-key-der.ts'

const identity = 'spiffe://cluster.local/ns/default/sa/web'
const noCertificate = Buffer.alloc(0)

async function issue() {
  const generated = await new TestKeyGenerator().generate({ type: 'ecdsa-p256', identity, format: 'pkcs8' })
  const ca = await TestCA.create(new FakeClock())
  const der = Buffer.from(generated.csrDer)
  const pem = `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString('base64')}\n-----END CERTIFICATE REQUEST-----\n`
  const signal = new AbortController().signal
  const { chain } = await ca.sign({ identity, ttlSeconds: 60, signal, csr: async () => ({ der, pem }) })
  return { key: createPrivateKey(Buffer.from(generated.privateKeyPem)), certificate: Buffer.from(chain[0] ?? '') }
}

test('PKCS#8 in PEM is decoded as Node decodes it, whatever its length', () => {
  const pairs = [
    generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    generateKeyPairSync('ec', { namedCurve: 'P-521' }),
    generateKeyPairSync('ed25519'),
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ]
  for (const { privateKey } of pairs) {
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
    const der = privateKey.export({ type: 'pkcs8', format: 'der' })
    assert.deepEqual(privateKeyToPkcs8(Buffer.from(pem), noCertificate), der)
    assert.deepEqual(privateKeyToPkcs8(Buffer.from(String(pem).replaceAll('\n', '\r\n')), noCertificate), der)
  }
})

test('a key in an older form is put into PKCS#8 with the algorithm of its certificate', async () => {
  const { key, certificate } = await issue()
  const traditional = Buffer.from(key.export({ type: 'sec1', format: 'pem' }))
  const pkcs8 = privateKeyToPkcs8(traditional, certificate)
  const read = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
  assert.ok(read.equals(key))
  const parameters = Buffer.from(`-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n`)
  assert.deepEqual(privateKeyToPkcs8(Buffer.concat([parameters, traditional]), certificate), pkcs8)
})

test('anything else is refused', () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const pem = String(privateKey.export({ type: 'pkcs8', format: 'pem' }))
  for (const text of ['', pem.slice(0, 60), pem.replaceAll('PRIVATE KEY', 'ENCRYPTED PRIVATE KEY')])
    assert.throws(() => privateKeyToPkcs8(Buffer.from(text), noCertificate), TypeError)
})

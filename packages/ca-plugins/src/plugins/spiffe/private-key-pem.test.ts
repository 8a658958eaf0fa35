import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { privateKeyPem } from './private-key-pem.ts'

test('keys of every kind are written as OpenSSL writes them', () => {
  for (const { privateKey } of [
    generateKeyPairSync('ed25519'),
    generateKeyPairSync('ec', { namedCurve: 'prime256v1' }),
    generateKeyPairSync('ec', { namedCurve: 'secp384r1' }),
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ])
    assert.equal(
      privateKeyPem(privateKey.export({ type: 'pkcs8', format: 'der' })).toString(),
      privateKey.export({ type: 'pkcs8', format: 'pem' }),
    )
})

test('every length is padded, and ends with one newline', () => {
  for (let length = 1; length <= 200; length++) {
    const der = Buffer.from(Array.from({ length }, (_, index) => (index * 37 + length) % 256))
    const lines = der.toString('base64').replace(/.{1,64}/g, '$&\n')
    assert.equal(privateKeyPem(der).toString(), `-----BEGIN PRIVATE KEY-----\n${lines}-----END PRIVATE KEY-----\n`)
  }
})

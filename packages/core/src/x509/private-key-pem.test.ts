import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { privateKeyToPem } from './private-key-pem.ts'

test('keys of every kind are written as OpenSSL writes them', () => {
  for (const { privateKey } of [
    generateKeyPairSync('ed25519'),
    generateKeyPairSync('ec', { namedCurve: 'prime256v1' }),
    generateKeyPairSync('ec', { namedCurve: 'secp384r1' }),
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ])
    assert.equal(
      privateKeyToPem(privateKey.export({ type: 'pkcs8', format: 'der' }), 'PRIVATE KEY').toString(),
      privateKey.export({ type: 'pkcs8', format: 'pem' }),
    )
})

test('every length is encoded as Node does, in lines of 64', () => {
  for (let length = 0; length <= 200; length++) {
    const der = Buffer.from(Array.from({ length }, (_, index) => (index * 37 + length) % 256))
    const lines = der.toString('base64').replace(/.{1,64}/g, '$&\n')
    assert.equal(privateKeyToPem(der, 'X').toString(), `-----BEGIN X-----\n${lines}-----END X-----\n`)
  }
})

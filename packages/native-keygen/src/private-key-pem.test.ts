import assert from 'node:assert/strict'
import { test } from 'node:test'
import { privateKeyToPem } from './private-key-pem.ts'

test('every length is encoded as Node does, in lines of 64', () => {
  for (let length = 0; length <= 100; length++) {
    const der = Buffer.from(Array.from({ length }, (_, index) => (index * 37 + length) % 256))
    const lines = der.toString('base64').replace(/.{1,64}/g, '$&\n')
    assert.equal(privateKeyToPem(der, 'X').toString(), `-----BEGIN X-----\n${lines}-----END X-----\n`)
  }
})

/** Whatever is remembered, an answer reads as the generated code reads it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { IstioCertificateResponse } from '../../gen/istio/v1/auth/ca.ts'
import { ResponseReader } from './response-reader.ts'

const ANSWER = { action: 'get a certificate', remedy: 'Check the CA' }

function encoded(certChain: readonly string[]): Buffer {
  return Buffer.from(IstioCertificateResponse.encode({ certChain: [...certChain] }).finish())
}

/** Lengths around those at which the length takes another byte. */
const element = fc
  .tuple(fc.constantFrom(0, 1, 127, 128, 129, 900, 16_383, 16_384), fc.constantFrom('x', 'y'))
  .map(([length, letter]) => letter.repeat(length))

test('elements are those of the message, whichever answers came before, and whatever follows them', () => {
  const answers = fc.array(fc.tuple(fc.array(element, { maxLength: 4 }), fc.constantFrom('', '1005', '0a0178')))
  fc.assert(
    fc.property(answers, all => {
      const reader = new ResponseReader()
      for (const [certChain, more] of [...all, ...all]) {
        const bytes = Buffer.concat([encoded(certChain), Buffer.from(more, 'hex')])
        assert.deepEqual(reader.certChain(bytes, ANSWER), IstioCertificateResponse.decode(bytes).certChain)
        bytes.fill(0)
      }
    }),
  )
})

test('an answer that breaks off is refused, also after one that did not, and changes nothing', () => {
  const reader = new ResponseReader()
  const certChain = ['leaf'.repeat(100), 'issuer'.repeat(100)]
  const bytes = encoded(certChain)
  for (let round = 0; round < 2; round++) {
    assert.deepEqual(reader.certChain(bytes, ANSWER), certChain)
    for (const length of [1, 2, 3, 200, 404, bytes.length - 1])
      assert.throws(() => reader.certChain(bytes.subarray(0, length), ANSWER), /is not an IstioCertificateResponse/)
  }
})

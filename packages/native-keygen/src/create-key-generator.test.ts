import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lookup } from './addon.ts'
import { createKeyGenerator } from './create-key-generator.ts'

test('the native generator is chosen where the addon loads, and otherwise WebCrypto with the reason', () => {
  const { generator, reason } = createKeyGenerator()
  assert.equal(generator.name, lookup.addon ? 'native' : 'webcrypto')
  assert.equal(reason, lookup.addon ? undefined : `${lookup.reason}. ${lookup.remedy}`)
})

test('WebCrypto can be asked for', () => {
  const { generator, reason } = createKeyGenerator({ prefer: 'webcrypto' })
  assert.equal(generator.name, 'webcrypto')
  assert.equal(reason, 'WebCrypto was asked for')
})

test('another preference is a TypeError that names it', () => {
  // @ts-expect-error: wrong on purpose
  assert.throws(() => createKeyGenerator({ prefer: 'openssl' }), { name: 'TypeError', message: /"openssl"/ })
})

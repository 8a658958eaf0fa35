import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lookup } from './addon.ts'
import { createKeyGenerator } from './create-key-generator.ts'
import { RSA_KEYS } from './defaults.ts'
import { chooseRsaKeys } from './rsa-keys.ts'
import { assertCsr, assertPrivateKey } from './suite-assertions.ts'

const { addon } = lookup
const skip = addon ? false : lookup.reason
const IDENTITY = 'spiffe://cluster.local/ns/default/sa/web'

for (const rsaKeys of RSA_KEYS) {
  const isMissing = addon?.rsaMethods().includes(rsaKeys) === false
  test(`makes RSA keys by ${rsaKeys}, one alone and in a batch`, {
    skip: isMissing ? `this CPU cannot run ${rsaKeys}` : skip,
  }, async () => {
    const { generator } = createKeyGenerator({ rsaKeys })
    const request = { type: 'rsa-2048', identity: IDENTITY } as const
    const keys = [await generator.generate(request), ...(await generator.generateBatch([request, request]))]
    for (const key of keys) {
      assertPrivateKey(key, { type: 'rsa-2048', format: 'pkcs8' })
      await assertCsr(key, request)
    }
  })
}

test('a CPU without AVX-512 IFMA and AVX2 makes RSA keys by search where simd is asked for, and the reason says so', () => {
  const withoutSimd = { rsaMethods: () => ['library', 'search'] }
  const { method, reason } = chooseRsaKeys('simd', withoutSimd)
  assert.equal(method, 'search')
  assert.match(reason ?? '', /this CPU cannot run rsaKeys "simd", which needs AVX-512 IFMA, or AVX2 with FMA/)
  for (const wanted of ['library', 'search'] as const)
    assert.deepEqual(chooseRsaKeys(wanted, withoutSimd), { method: wanted })
  assert.deepEqual(chooseRsaKeys('simd', { rsaMethods: () => [...RSA_KEYS] }), { method: 'simd' })
})

test('the addon names its ways to make RSA keys as this package does', { skip }, () => {
  const methods = addon?.rsaMethods() ?? []
  assert.deepEqual(methods, RSA_KEYS.slice(0, methods.length))
  assert.ok(methods.includes('search'))
})

test('another way to make RSA keys is a TypeError that names it', { skip }, () => {
  // @ts-expect-error: wrong on purpose
  assert.throws(() => createKeyGenerator({ rsaKeys: 'openssl' }), {
    name: 'TypeError',
    message: /rsaKeys is "openssl"/,
  })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { KeyPoolStatus, KeyRequest, KeyType } from '@livery/core'
import { lookup } from './addon.ts'
import { createKeyGenerator, type KeyGeneratorOptions } from './create-key-generator.ts'
import { assertCsr, assertPrivateKey } from './suite-assertions.ts'

const skip = lookup.addon ? false : lookup.reason
const REQUEST: KeyRequest = { type: 'rsa-2048', identity: 'spiffe://cluster.local/ns/default/sa/web' }

function pooled(options: KeyGeneratorOptions = { pool: { cpu: 1 } }) {
  const { generator } = createKeyGenerator(options)
  assert.ok(generator.prepare && generator.pool)
  return Object.assign(generator, { prepare: generator.prepare, pool: generator.pool })
}

type Pooled = ReturnType<typeof pooled>

function statusOf(generator: Pooled, type: KeyType): KeyPoolStatus | undefined {
  return generator.pool().find(status => status.type === type)
}

/** The pool uses only what others leave: on a busy machine this takes a while, and the test's time bounds it. */
async function depthReaches(generator: Pooled, type: KeyType, depth: number): Promise<void> {
  while (statusOf(generator, type)?.depth !== depth) await nextTurn()
}

test('keys that were prepared are there when they are asked for', { skip }, async () => {
  using generator = pooled()
  assert.deepEqual(generator.pool(), [])
  generator.prepare('rsa-2048', 2)
  await depthReaches(generator, 'rsa-2048', 2)
  const status = statusOf(generator, 'rsa-2048')
  assert.ok(status?.oldestAgeMs !== undefined && status.oldestAgeMs >= 0)
  const [first, second] = await Promise.all([generator.generate(REQUEST), generator.generateBatch([REQUEST])])
  for (const key of [first, ...second]) {
    assertPrivateKey(key, { type: 'rsa-2048', format: 'pkcs8' })
    await assertCsr(key, REQUEST)
  }
  assert.notDeepEqual(first.publicKeyDer, second[0]?.publicKeyDer)
  assert.equal(statusOf(generator, 'rsa-2048')?.hits, 2)
  assert.equal(statusOf(generator, 'rsa-2048')?.misses, 0)
})

test('a prepared key takes the identity and the form of each request', { skip }, async () => {
  using generator = pooled()
  const types: readonly KeyType[] = ['ecdsa-p256', 'ecdsa-p384']
  for (const type of types) {
    generator.prepare(type, 1)
    await depthReaches(generator, type, 1)
    const key = await generator.generate({ ...REQUEST, type, format: 'traditional' })
    assertPrivateKey(key, { type, format: 'traditional' })
    await assertCsr(key, { ...REQUEST, type })
    assert.equal(statusOf(generator, type)?.hits, 1)
  }
})

test('no key is handed out twice, though many ask while the pool is filled', { skip }, async () => {
  using generator = pooled()
  generator.prepare('ecdsa-p256', 64)
  const request: KeyRequest = { ...REQUEST, type: 'ecdsa-p256' }
  const keys = await Promise.all(Array.from({ length: 500 }, () => generator.generate(request)))
  assert.equal(new Set(keys.map(key => Buffer.from(key.publicKeyDer).toString('hex'))).size, 500)
  const status = statusOf(generator, 'ecdsa-p256')
  assert.equal((status?.hits ?? 0) + (status?.misses ?? 0), 500)
})

test('a key that the pool does not have is generated, and counted as a miss', { skip }, async () => {
  using generator = pooled()
  const key = await generator.generate(REQUEST)
  assertPrivateKey(key, { type: 'rsa-2048', format: 'pkcs8' })
  assert.deepEqual(generator.pool(), [{ type: 'rsa-2048', depth: 0, hits: 0, misses: 1, oldestAgeMs: undefined }])
})

test('a demand of none wipes the keys that are there', { skip }, async () => {
  using generator = pooled()
  generator.prepare('ecdsa-p256', 3)
  await depthReaches(generator, 'ecdsa-p256', 3)
  generator.prepare('ecdsa-p256', 0)
  assert.equal(statusOf(generator, 'ecdsa-p256')?.depth, 0)
})

test('a generator that was disposed of keeps no keys, and still makes them', { skip }, async () => {
  const generator = pooled()
  generator.prepare('ecdsa-p256', 3)
  await depthReaches(generator, 'ecdsa-p256', 3)
  generator[Symbol.dispose]()
  await depthReaches(generator, 'ecdsa-p256', 0)
  generator.prepare('ecdsa-p256', 3)
  const key = await generator.generate({ ...REQUEST, type: 'ecdsa-p256' })
  assertPrivateKey(key, { type: 'ecdsa-p256', format: 'pkcs8' })
  assert.equal(statusOf(generator, 'ecdsa-p256')?.hits, 0)
  generator[Symbol.dispose]()
})

test('without a pool nothing can be prepared, natively or on WebCrypto', () => {
  for (const options of [{ pool: false }, { prefer: 'webcrypto' }] as const) {
    using generator = createKeyGenerator(options).generator
    assert.equal(generator.prepare, undefined)
    assert.equal(generator.pool, undefined)
  }
})

test('a wrong share, type or number is a TypeError that names it', { skip }, () => {
  for (const cpu of [0, -1, 1.5, Number.NaN])
    assert.throws(() => createKeyGenerator({ pool: { cpu } }), { name: 'TypeError', message: /pool\.cpu is/ })
  using generator = pooled({})
  // @ts-expect-error: wrong on purpose
  assert.throws(() => generator.prepare('dsa', 1), { name: 'TypeError', message: /"dsa"/ })
  for (const count of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY])
    assert.throws(() => generator.prepare('rsa-2048', count), { name: 'TypeError', message: /count is/ })
})

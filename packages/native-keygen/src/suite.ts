/** The tests that prove a `KeyGenerator`: run them with any implementation, under node:test or a runner like it. */
import assert from 'node:assert/strict'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { getEventListeners } from 'node:events'
import type { GeneratedKey, KeyGenerator, KeyRequest, KeyType, PrivateKeyFormat, SpiffeId } from '@livery/core/plugin'
import { assertCsr, assertPrivateKey, verifyWithOpenSsl } from './suite-assertions.ts'

export interface KeyGeneratorSuiteOptions {
  /** `test` of node:test or the like; `skip` is called with a reason where a tool is missing. */
  readonly test: (name: string, run: (context: { skip(reason: string): void }) => Promise<void>) => unknown
  /** Called once a test. */
  readonly create: () => KeyGenerator
  /** Also RSA-3072 and RSA-4096 in every form: some ten seconds more. Default: false. */
  readonly slow?: boolean
}

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const REQUEST: KeyRequest = { type: 'ecdsa-p256', identity: WEB }

/** Registers the suite's tests with `test`. */
export function keyGeneratorSuite({ test, create, slow = false }: KeyGeneratorSuiteOptions): void {
  for (const [type, format] of keyForms(slow)) {
    test(`makes an ${type} key in ${format} form, with a CSR for it`, async () => {
      const key = await create().generate({ type, format, identity: WEB })
      assertPrivateKey(key, { type, format })
      await assertCsr(key, { type, identity: WEB })
    })
  }
  outputTests({ test, create })
  batchTests({ test, create })
  abortTests({ test, create })
  wrongInputTests({ test, create })
}

function keyForms(slow: boolean): readonly (readonly [KeyType, PrivateKeyFormat])[] {
  const both = (type: KeyType) => [[type, 'pkcs8'] as const, [type, 'traditional'] as const]
  const quick = [...both('ecdsa-p256'), ...both('ecdsa-p384'), ...both('rsa-2048')]
  return slow ? [...quick, ...both('rsa-3072'), ...both('rsa-4096')] : [...quick, ['rsa-4096', 'pkcs8']]
}

function outputTests({ test, create }: KeyGeneratorSuiteOptions): void {
  test('the form is PKCS#8 where none is asked for', async () => {
    assertPrivateKey(await create().generate(REQUEST), { type: 'ecdsa-p256', format: 'pkcs8' })
  })

  test('OpenSSL accepts the CSR of every algorithm', async context => {
    for (const type of ['ecdsa-p256', 'ecdsa-p384', 'rsa-2048'] as const) {
      const { csrDer } = await create().generate({ type, identity: WEB })
      const verdict = await verifyWithOpenSsl(csrDer)
      if (verdict === undefined) return context.skip('openssl is not installed')
      assert.match(verdict, /verify OK/)
    }
  })

  test('the longest identity fits into the CSR', async () => {
    const identity: SpiffeId = `spiffe://cluster.local/${'a'.repeat(2048 - 'spiffe://cluster.local/'.length)}`
    await assertCsr(await create().generate({ type: 'ecdsa-p256', identity }), { type: 'ecdsa-p256', identity })
  })

  test('the DNS names asked for stand in the CSR behind the identity', async () => {
    const request = { type: 'ecdsa-p256', identity: WEB, dnsNames: ['web.example', '*.web.example'] } as const
    await assertCsr(await create().generate(request), request)
  })

  test('64 keys asked for at once are 64 different keys', async () => {
    const generator = create()
    const keys = await Promise.all(Array.from({ length: 64 }, (_, index) => generator.generate(requestFor(index))))
    assert.equal(new Set(keys.map(publicKeyHex)).size, 64)
    await assertAllMatch(keys)
  })
}

function batchTests({ test, create }: KeyGeneratorSuiteOptions): void {
  test('a batch answers in the order of its requests, whatever their types take', async () => {
    const types: readonly KeyType[] = ['rsa-2048', 'ecdsa-p256', 'ecdsa-p384', 'ecdsa-p256']
    const requests = types.map((type, index) => ({ ...requestFor(index), type }))
    const keys = await create().generateBatch(requests)
    assert.equal(keys.length, requests.length)
    for (const [index, key] of keys.entries()) {
      const { type, identity } = requests[index] ?? REQUEST
      assertPrivateKey(key, { type, format: 'pkcs8' })
      await assertCsr(key, { type, identity })
    }
  })

  test('a batch of 200 holds 200 different keys in order', async () => {
    const keys = await create().generateBatch(Array.from({ length: 200 }, (_, index) => requestFor(index)))
    assert.equal(new Set(keys.map(publicKeyHex)).size, 200)
    await assertAllMatch(keys)
  })

  test('an empty batch is answered with an empty list', async () => {
    assert.deepEqual(await create().generateBatch([]), [])
  })

  test('one wrong request fails the whole batch, and is named', async () => {
    const wrong = { type: 'dsa', identity: WEB }
    // @ts-expect-error: not a key type
    await assert.rejects(create().generateBatch([REQUEST, wrong, REQUEST]), mentions(TypeError, 'requests[1].type'))
  })

  test('wiping one key of a batch leaves the others as they are', async () => {
    const [first, second] = await create().generateBatch([REQUEST, REQUEST])
    assert.ok(first && second)
    first.privateKeyPem.fill(0)
    assertPrivateKey(second, { type: 'ecdsa-p256', format: 'pkcs8' })
    assert.equal(createPublicKey({ key: Buffer.from(first.publicKeyDer), type: 'spki', format: 'der' }).type, 'public')
  })
}

function abortTests({ test, create }: KeyGeneratorSuiteOptions): void {
  const reason = new Error('nobody waits any more')
  const slowBatch = Array.from({ length: 8 }, (_, index) => ({ ...requestFor(index), type: 'rsa-2048' as const }))

  test('a signal that is aborted already makes no key, and rejects with its reason', async () => {
    const signal = AbortSignal.abort(reason)
    await assert.rejects(create().generate(REQUEST, { signal }), error => error === reason)
    await assert.rejects(create().generateBatch([REQUEST], { signal }), error => error === reason)
  })

  test('an abort while keys are made rejects with its reason, and the generator goes on working', async () => {
    const generator = create()
    const controller = new AbortController()
    const { signal } = controller
    const pending = [generator.generate(REQUEST, { signal }), generator.generateBatch(slowBatch, { signal })]
    controller.abort(reason)
    for (const work of pending) await assert.rejects(work, error => error === reason)
    assertPrivateKey(await generator.generate(REQUEST), { type: 'ecdsa-p256', format: 'pkcs8' })
  })

  test('an abort after the answer changes nothing, and no listener stays on the signal', async () => {
    const generator = create()
    const controller = new AbortController()
    const { signal } = controller
    const key = await generator.generate(REQUEST, { signal })
    const [batched] = await generator.generateBatch([REQUEST], { signal })
    assert.equal(getEventListeners(signal, 'abort').length, 0)
    controller.abort(reason)
    assertPrivateKey(key, { type: 'ecdsa-p256', format: 'pkcs8' })
    assert.ok(batched)
    assertPrivateKey(batched, { type: 'ecdsa-p256', format: 'pkcs8' })
  })
}

function wrongInputTests({ test, create }: KeyGeneratorSuiteOptions): void {
  const wrong: readonly (readonly [field: string, request: unknown])[] = [
    ['request', null],
    ['request', 'ecdsa-p256'],
    ['request.type', { identity: WEB }],
    ['request.type', { ...REQUEST, type: 'ecdsa-p521' }],
    ['request.type', { ...REQUEST, type: 256 }],
    ['request.format', { ...REQUEST, format: 'der' }],
    ['request.format', { ...REQUEST, format: null }],
    ['request.identity', { type: 'ecdsa-p256' }],
    ['request.identity', { ...REQUEST, identity: 'cluster.local/ns/default/sa/web' }],
    ['request.identity', { ...REQUEST, identity: 'spiffe://cluster.local/ns/default/sa/wéb' }],
    ['request.identity', { ...REQUEST, identity: 'spiffe://cluster.local/a\u0000b' }],
    ['request.identity', { ...REQUEST, identity: 7 }],
    ['request.dnsNames', { ...REQUEST, dnsNames: 'web.example' }],
    ['request.dnsNames', { ...REQUEST, dnsNames: ['a..b'] }],
  ]
  for (const [field, request] of wrong) {
    test(`refuses the request ${JSON.stringify(request)} with a TypeError that names ${field}`, async () => {
      // @ts-expect-error: wrong on purpose
      await assert.rejects(create().generate(request), mentions(TypeError, field))
    })
  }

  test('refuses a batch that is not a list with a TypeError', async () => {
    // @ts-expect-error: wrong on purpose
    await assert.rejects(create().generateBatch({ length: 1 }), mentions(TypeError, 'requests'))
  })
}

function requestFor(index: number): KeyRequest {
  return { type: 'ecdsa-p256', identity: `spiffe://cluster.local/ns/load/sa/sa-${index}` }
}

/** Each key fits its request, and its parts belong together. */
async function assertAllMatch(keys: readonly GeneratedKey[]): Promise<void> {
  for (const [index, key] of keys.entries()) {
    const derived = createPublicKey(createPrivateKey(Buffer.from(key.privateKeyPem)))
    assert.deepEqual(derived.export({ type: 'spki', format: 'der' }), Buffer.from(key.publicKeyDer))
    await assertCsr(key, requestFor(index))
  }
}

function publicKeyHex(key: GeneratedKey): string {
  return Buffer.from(key.publicKeyDer).toString('hex')
}

function mentions(type: ErrorConstructor, text: string): (error: unknown) => true {
  return error => {
    assert.ok(error instanceof type)
    assert.ok(error.message.includes(text), error.message)
    return true
  }
}

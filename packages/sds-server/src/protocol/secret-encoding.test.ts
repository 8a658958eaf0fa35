import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { AllBundlesSecret } from '@livery/core'
import { privateKeyOf } from '@livery/core/testing'
import { collectGarbage } from '../../../core/test/heap-growth.ts'
import { payloadOf } from '../../test/frame-payload.ts'
import { MemorySource } from '../../test/memory-source.ts'
import { API, WEB } from '../../test/running-server.ts'
import { namesOf, secretsOf } from '../../test/sds-client.ts'
import { Secret } from '../gen/envoy/extensions/transport_sockets/tls/v3/secret.ts'
import { SPIFFECertValidatorConfig } from '../gen/envoy/extensions/transport_sockets/tls/v3/tls_spiffe_validator_config.ts'
import { DeltaDiscoveryResponse, DiscoveryResponse } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { MessageComposer } from './discovery-message.ts'
import { type NamedSecret, SECRET_TYPE_URL } from './response-content.ts'
import { deltaEncoder, ResponseEncoder, sotwEncoder } from './secret-encoding.ts'

const source = await MemorySource.create(WEB, API)

function named(...names: readonly (typeof WEB)[]) {
  return names.map(name => {
    const item = source.current({ kind: 'identity', identity: name })
    assert.ok(item)
    return { name, item }
  })
}

test('a SotW response has every field in its place', () => {
  const message = { nonce: 'n', version: 'v', resources: named(WEB, API), removed: [] }
  const response = DiscoveryResponse.decode(payloadOf(sotwEncoder().encodeMessage(message)))
  assert.equal(response.nonce, 'n')
  assert.equal(response.versionInfo, 'v')
  assert.equal(response.typeUrl, SECRET_TYPE_URL)
  assert.deepEqual(namesOf(response), [API, WEB])
})

test('in SotW a name without a secret has one with an empty list of session ticket keys', () => {
  const message = { nonce: 'n', version: 'v', resources: [], removed: ['kubernetes://gateway', 'other'] }
  const { resources, nonce } = DiscoveryResponse.decode(payloadOf(sotwEncoder().encodeMessage(message)))
  assert.equal(nonce, 'n')
  assert.deepEqual(
    resources.map(({ typeUrl, value }) => [typeUrl, value.toString('latin1')]),
    [
      [SECRET_TYPE_URL, '\x0a\x14kubernetes://gateway\x1a\x00'],
      [SECRET_TYPE_URL, '\x0a\x05other\x1a\x00'],
    ],
  )
})

test('a Delta response has every field in its place', () => {
  const message = { nonce: 'n', version: 'v', resources: named(WEB, API), removed: ['gone'] }
  const response = DeltaDiscoveryResponse.decode(payloadOf(deltaEncoder().encodeMessage(message)))
  assert.equal(response.nonce, 'n')
  assert.equal(response.systemVersionInfo, 'v')
  assert.equal(response.typeUrl, SECRET_TYPE_URL)
  assert.deepEqual(response.removedResources, ['gone'])
  assert.deepEqual(
    response.resources.map(({ name, version }) => ({ name, version })),
    message.resources.map(({ name, item }) => ({ name, version: item.version })),
  )
})

test('a secret is encoded for its first response, and from the second on once a version and name for all', async () => {
  const own = await MemorySource.create(WEB)
  const encoded: string[] = []
  const encodeResource = ({ name, item }: NamedSecret, key: Buffer) => {
    encoded.push(`${name} ${item.version}`)
    return Buffer.concat([key, Buffer.from('x')])
  }
  const encoder = new ResponseEncoder(encodeResource, () => Buffer.alloc(0))
  const push = (name: string, nonce: string) => {
    const item = own.current({ kind: 'identity', identity: WEB })
    assert.ok(item)
    return encoder.encodeMessage({ nonce, version: item.version, resources: [{ name, item }], removed: [] })
  }
  for (const [name, nonce] of [
    [WEB, '1'],
    [WEB, '2'],
    [WEB, '3'],
    ['default', '4'],
    ['default', '5'],
  ] as const) {
    const item = own.current({ kind: 'identity', identity: WEB })
    assert.equal(item?.kind, 'certificate')
    assert.ok(
      payloadOf(push(name, nonce))
        .toString('latin1')
        .endsWith(`${nonce}${privateKeyOf(item)}x`),
    )
  }
  await own.issue(WEB)
  push(WEB, '6')
  assert.equal(encoded.length, 4)
  assert.equal(new Set(encoded).size, 3)
})

test('a certificate with one stream costs no encoded form', async () => {
  const items = await Promise.all(Array.from({ length: 100 }, async () => certificate(await MemorySource.create(WEB))))
  const encoder = sotwEncoder()
  // Buffers that a collection finds unused are freed beside it, and counted until the next one.
  const buffersInUse = async () => {
    for (let round = 0; round < 4; round++) {
      collectGarbage()
      await setImmediate()
    }
    return process.memoryUsage().arrayBuffers
  }
  const encodeAll = () => {
    for (const item of items)
      encoder.encodeMessage({ nonce: '', version: '', resources: [{ name: WEB, item }], removed: [] }).release(true)
    return buffersInUse()
  }
  const before = await buffersInUse()
  const byOne = await encodeAll()
  const byTwo = await encodeAll()
  const bytes = items.reduce((sum, { certificateChain }) => sum + certificateChain.length, 0)
  assert.ok(byOne - before < bytes / 4, `${byOne - before} bytes are kept`)
  assert.ok(byTwo - before > bytes, `only ${byTwo - before} bytes are kept`)
})

test('texts of any length have their place in a response', () => {
  for (const length of [0, 1, 127, 128, 300, 20_000]) {
    const text = 'é'.repeat(length)
    const message = { nonce: text, version: text, resources: [], removed: [text, 'x'] }
    const response = DeltaDiscoveryResponse.decode(payloadOf(deltaEncoder().encodeMessage(message)))
    assert.deepEqual(
      [response.nonce, response.systemVersionInfo, ...response.removedResources],
      [text, text, text, 'x'],
    )
  }
})

function certificate(own: MemorySource) {
  const item = own.current({ kind: 'identity', identity: WEB })
  assert.equal(item?.kind, 'certificate')
  return item
}

function keyIn(message: Buffer): Buffer | undefined {
  const secret = secretsOf(DiscoveryResponse.decode(message)).get(WEB)
  assert.equal(secret?.type?.$case, 'tlsCertificate')
  return secret.type.value.privateKey?.inlineBytes
}

test('a frame holds its key from the first writer to the last, and zeros before and after', async () => {
  const own = await MemorySource.create(WEB)
  const item = certificate(own)
  const key = privateKeyOf(item)
  const message = new MessageComposer('e').compose([{ name: WEB, item }], [], 0)
  const encoder = sotwEncoder()
  const frame = encoder.encodeMessage({ ...message, isShared: true })
  assert.deepEqual(keyIn(payloadOf(frame)), key)
  frame.acquire()
  frame.release(true)
  assert.deepEqual(keyIn(payloadOf(frame)), key)
  frame.release(true)
  assert.deepEqual(keyIn(payloadOf(frame)), Buffer.alloc(key.length))
  assert.equal(frame.bytes.includes(key.subarray(30, 60)), false)
  assert.deepEqual(keyIn(payloadOf(frame.acquire())), key)
  frame.release(true)
})

test('what is kept of an encoded secret holds no key, in either form', async () => {
  const item = certificate(await MemorySource.create(WEB))
  const key = privateKeyOf(item)
  for (const encoder of [sotwEncoder(), deltaEncoder()]) {
    const encode = () =>
      encoder.encodeMessage({ nonce: '', version: '', resources: [{ name: WEB, item }], removed: [] })
    for (let responses = 0; responses < 2; responses++) encode().release(true)
    const frame = encode()
    assert.equal(payloadOf(frame).indexOf(key), payloadOf(frame).lastIndexOf(key))
    frame.release(true)
    assert.equal(frame.bytes.includes(key.subarray(30, 60)), false)
  }
})

test('a secret whose key was wiped cannot be encoded, and a frame of it not be written again', async () => {
  const item = certificate(await MemorySource.create(WEB))
  const encoder = sotwEncoder()
  const message = { nonce: 'n', version: 'v', resources: [{ name: WEB, item }], removed: [] }
  const frame = encoder.encodeMessage(message)
  const key = privateKeyOf(item)
  item.wipe()
  assert.deepEqual(keyIn(payloadOf(frame)), key, 'a write that has begun continues')
  frame.release(true)
  assert.throws(() => frame.acquire(), /it was wiped/)
  assert.throws(() => encoder.encodeMessage(message), /it was wiped/)
  assert.deepEqual(keyIn(payloadOf(frame)), Buffer.alloc(key.length))
})

test('a frame is what gRPC puts on the wire: a flag, a length and the message', () => {
  const frame = deltaEncoder().encodeMessage({ nonce: 'n', version: 'v', resources: [], removed: [] })
  assert.deepEqual([frame.bytes.readUInt8(0), frame.bytes.readUInt32BE(1)], [0, payloadOf(frame).length])
  assert.deepEqual(frame.bytes.subarray(5), payloadOf(frame))
})

test("the bundles of all trust domains are a configuration of Envoy's SPIFFE validator, each apart", () => {
  const bundle = source.current({ kind: 'bundle', trustDomain: 'cluster.local' })
  assert.ok(bundle?.kind === 'bundle')
  const bundles = ['cluster.local', 'other.example'].map(trustDomain => ({ trustDomain, bundle }))
  const item = new AllBundlesSecret({ version: 'v', own: bundle, bundles })
  const message = { nonce: 'n', version: 'v', resources: [{ name: 'ALL', item }], removed: [] }
  const { resources } = DiscoveryResponse.decode(payloadOf(sotwEncoder().encodeMessage(message)))
  const { name, type } = Secret.decode(resources[0]?.value ?? Buffer.alloc(0))
  assert.equal(name, 'ALL')
  assert.ok(type?.$case === 'validationContext')
  assert.equal(type.value.trustedCa, undefined)
  const { customValidatorConfig } = type.value
  assert.equal(customValidatorConfig?.name, 'envoy.tls.cert_validator.spiffe')
  const config = SPIFFECertValidatorConfig.decode(customValidatorConfig?.typedConfig?.value ?? Buffer.alloc(0))
  assert.deepEqual(
    config.trustDomains.map(each => [each.name, each.trustBundle?.inlineBytes]),
    bundles.map(each => [each.trustDomain, Buffer.from(bundle.trustedCa)]),
  )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemorySource } from '../test/memory-source.ts'
import { API, WEB } from '../test/running-server.ts'
import { namesOf, secretsOf } from '../test/sds-client.ts'
import { DeltaDiscoveryResponse, DiscoveryResponse } from './gen/envoy/service/discovery/v3/discovery.ts'
import { SECRET_TYPE_URL } from './request-check.ts'
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
  const response = DiscoveryResponse.decode(sotwEncoder().encode(message))
  assert.equal(response.nonce, 'n')
  assert.equal(response.versionInfo, 'v')
  assert.equal(response.typeUrl, SECRET_TYPE_URL)
  assert.deepEqual(namesOf(response), [API, WEB])
})

test('a Delta response has every field in its place', () => {
  const message = { nonce: 'n', version: 'v', resources: named(WEB, API), removed: ['gone'] }
  const response = DeltaDiscoveryResponse.decode(deltaEncoder().encode(message))
  assert.equal(response.nonce, 'n')
  assert.equal(response.systemVersionInfo, 'v')
  assert.equal(response.typeUrl, SECRET_TYPE_URL)
  assert.deepEqual(response.removedResources, ['gone'])
  assert.deepEqual(
    response.resources.map(({ name, version }) => ({ name, version })),
    message.resources.map(({ name, item }) => ({ name, version: item.version })),
  )
})

test('a secret is encoded once a version and name, however many streams get it', async () => {
  const own = await MemorySource.create(WEB)
  const encoded: string[] = []
  const encoder = new ResponseEncoder(({ name, item }) => {
    encoded.push(`${name} ${item.version}`)
    return Buffer.from('x')
  })
  const push = (name: string, nonce: string) => {
    const item = own.current({ kind: 'identity', identity: WEB })
    assert.ok(item)
    return encoder.encode({ nonce, version: item.version, resources: [{ name, item }], removed: [] })
  }
  for (const [name, nonce] of [
    [WEB, '1'],
    [WEB, '2'],
    ['default', '3'],
  ] as const) {
    assert.ok(push(name, nonce).toString('latin1').endsWith(`${nonce}x`))
  }
  await own.issue(WEB)
  push(WEB, '4')
  assert.equal(encoded.length, 3)
  assert.equal(new Set(encoded).size, 3)
})

test('texts of any length have their place in a response', () => {
  for (const length of [0, 1, 127, 128, 300, 20_000]) {
    const text = 'é'.repeat(length)
    const message = { nonce: text, version: text, resources: [], removed: [text, 'x'] }
    const response = DeltaDiscoveryResponse.decode(deltaEncoder().encode(message))
    assert.deepEqual(
      [response.nonce, response.systemVersionInfo, ...response.removedResources],
      [text, text, text, 'x'],
    )
  }
})

test('what was encoded keeps its key after the item was wiped', async () => {
  const own = await MemorySource.create(WEB)
  const encoder = sotwEncoder()
  const item = own.current({ kind: 'identity', identity: WEB })
  assert.equal(item?.kind, 'certificate')
  const key = Buffer.from(item.privateKey())
  const message = { nonce: 'n', version: 'v', resources: [{ name: WEB, item }], removed: [] }
  encoder.encode(message)
  item.wipe()
  const secret = secretsOf(DiscoveryResponse.decode(encoder.encode(message))).get(WEB)
  assert.equal(secret?.type?.$case, 'tlsCertificate')
  assert.deepEqual(secret.type.value.privateKey?.inlineBytes, key)
})

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import {
  array,
  constant,
  constantFrom,
  nat,
  oneof,
  property,
  record,
  string,
  uint8Array,
  assert as verify,
} from 'fast-check'
import { heapGrowth } from '../../../core/test/heap-growth.ts'
import { envoyNode } from '../../test/peer-node.ts'
import { DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { decodeDeltaRequest, decodeDiscoveryRequest } from './request-codec.ts'
import { SECRET_TYPE_URL } from './response-content.ts'
import { StreamRefusal } from './stream-refusal.ts'

/** The request, or the text of the refusal: nothing else may be thrown. */
function outcome<Request>(decode: (bytes: Buffer) => Request, bytes: Buffer): Request | string {
  try {
    return decode(bytes)
  } catch (error) {
    assert.ok(error instanceof StreamRefusal, `${error}`)
    return error.message
  }
}

const fixture = await readFile(new URL('../../test/fixtures/first-request-ROOTCA.bin', import.meta.url))

test('the first request of a real Envoy is decoded to who asks for what', () => {
  const request = decodeDiscoveryRequest(fixture)
  assert.deepEqual(request, {
    versionInfo: '',
    node: { ...envoyNode(request.node?.id ?? '', 40), cluster: 'pay' },
    resourceNames: ['ROOTCA'],
    typeUrl: 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret',
    responseNonce: '',
    errorDetail: undefined,
  })
  assert.match(request.node?.id ?? '', /^sidecar~10\.0\.0\.1~pay-7d9~default\.svc\.clust/)
})

test('of the 61 kB that Envoy sends, nearly nothing is kept', () => {
  const decoded = decodeDiscoveryRequest(fixture)
  assert.ok(fixture.length > 60_000)
  assert.ok(JSON.stringify(decoded).length < 400)
})

test('bytes that are cut off or changed decode to something or are refused, and nothing else is thrown', async () => {
  const change = record({ at: nat(fixture.length - 1), value: nat(255) })
  await verify(
    property(array(change, { maxLength: 20 }), nat(fixture.length), (changes, length) => {
      const bytes = Buffer.from(fixture)
      for (const { at, value } of changes) bytes[at] = value
      for (const decode of [decodeDiscoveryRequest, decodeDeltaRequest]) {
        const decoded = outcome<{ readonly typeUrl: string }>(decode, bytes.subarray(0, length))
        if (typeof decoded !== 'string') assert.equal(typeof decoded.typeUrl, 'string')
      }
    }),
  )
})

test('a request of texts alone is decoded as one with other fields is', async () => {
  const text = oneof(string({ unit: 'grapheme', maxLength: 140 }), constant(SECRET_TYPE_URL))
  const request = record({
    versionInfo: text,
    node: constant(undefined),
    resourceNames: array(text, { maxLength: 4 }),
    typeUrl: text,
    responseNonce: text,
    errorDetail: constant(undefined),
  })
  // Field 7, which is empty and unknown.
  const other = Buffer.from([(7 << 3) | 2, 0])
  await verify(
    property(
      request,
      array(record({ at: nat(), value: nat(255) }), { maxLength: 2 }),
      uint8Array(),
      (whole, changes, end) => {
        const encoded = Buffer.from(DiscoveryRequest.encode(whole).finish())
        assert.deepEqual(decodeDiscoveryRequest(encoded), { ...whole })
        const bytes = Buffer.concat([encoded, end])
        for (const { at, value } of changes) bytes[at % (bytes.length || 1)] = value
        const byLibrary = outcome(decodeDiscoveryRequest, Buffer.concat([other, bytes]))
        assert.deepEqual(outcome(decodeDiscoveryRequest, bytes), byLibrary)
      },
    ),
    { numRuns: 2_000 },
  )
})

test('many names are decoded whatever the request before had', async () => {
  const all = Array.from({ length: 40 }, (_, index) => `spiffe://cluster.local/ns/load/sa/sa-${index}`)
  const part = record({
    versionInfo: constantFrom('', 'v1'),
    from: nat(2),
    to: constantFrom(15, 20, 40),
    last: constantFrom([], ['x'], ['x'.repeat(127)], ['x'.repeat(128)]),
  })
  const encode = (versionInfo: string, resourceNames: string[]) =>
    DiscoveryRequest.encode({
      versionInfo,
      node: undefined,
      resourceNames,
      typeUrl: '',
      responseNonce: '',
      errorDetail: undefined,
    }).finish()
  // Field 7, which is empty and unknown: what follows is decoded by the library.
  const other = Buffer.from([(7 << 3) | 2, 0])
  await verify(
    property(array(array(part, { minLength: 1, maxLength: 3 }), { maxLength: 8 }), nat(3), (requests, cut) => {
      for (const parts of requests) {
        const encoded = parts.map(({ versionInfo, from, to, last }) =>
          encode(versionInfo, [...all.slice(from, to), ...last]),
        )
        const bytes = Buffer.concat(encoded)
        const request = bytes.subarray(0, bytes.length - cut)
        const byLibrary = outcome(decodeDiscoveryRequest, Buffer.concat([other, request]))
        assert.deepEqual(outcome(decodeDiscoveryRequest, request), byLibrary)
      }
    }),
    { numRuns: 500 },
  )
})

test('of a request with more names than a usual limit allows nothing is kept', () => {
  const name = (index: number) => [0x1a, 6, ...Buffer.from(`${100_000 + index}`)]
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, index) => name(index)).flat())
  const growth = heapGrowth(() => assert.equal(decodeDiscoveryRequest(bytes).resourceNames.length, 100_000))
  assert.ok(growth < 500_000, `${growth} bytes`)
})

/** The requests to Istio's CA are encoded in the same memory, one after the other; its answers read as the generated code reads them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '@livery/core/plugin'
import fc from 'fast-check'
import { ChainReader } from '../answers/certificate-chain.ts'
import { IstioCertificateRequest, IstioCertificateResponse } from '../gen/istio/v1/auth/ca.ts'
import { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'
import { workloadRequest } from '../testing/workload-request.ts'
import { encodeRequest, encodeResponse, ResponseReader } from './istio-certificate-service.ts'

function request(csr: string, validityDuration = 60n): IstioCertificateRequest {
  const fields = new Map([['ImpersonatedIdentity', { kind: { $case: 'stringValue' as const, value: `of ${csr}` } }]])
  return { csr, validityDuration, metadata: { fields } }
}

test('a request keeps its bytes while others are encoded, longer ones too', () => {
  const csrs = ['short', 'l'.repeat(10_000), 'last']
  const encoded = csrs.map(csr => encodeRequest(request(csr)))
  assert.deepEqual(
    encoded.map(bytes => IstioCertificateRequest.decode(bytes)),
    csrs.map(csr => request(csr)),
  )
})

test('a request that cannot be encoded leaves nothing in the next one', () => {
  assert.throws(() => encodeRequest(request('too long', 2n ** 70n)), /too large/)
  const alone = Buffer.from(IstioCertificateRequest.encode(request('next')).finish())
  assert.deepEqual(encodeRequest(request('next')), alone)
})

const ANSWER = { action: 'get a certificate', remedy: 'Check the CA' }

const authority = await CertificateAuthority.open({
  clock: new SystemClock(),
  trustDomain: 'cluster.local',
  intermediate: true,
})
const signed = await Promise.all(
  ['web', 'api'].map(async name => {
    const { identity, csrDer } = await workloadRequest(`spiffe://cluster.local/ns/default/sa/${name}`)
    return authority.sign({ identity, csr: csrDer, ttlSeconds: 60 })
  }),
)
const [web = '', api = ''] = signed.map(({ chain }) => chain[0])
const [
  {
    root,
    chain: [, intermediate = ''],
  } = assert.fail(),
] = signed

/** Lengths around those at which the length takes another byte. */
const element = fc.oneof(
  fc.constantFrom(web, api, intermediate, root, web + intermediate, intermediate + root),
  fc.tuple(fc.constantFrom(web, api), fc.constantFrom(16_383, 16_384)).map(([pem, length]) => pem.padEnd(length, '\n')),
  fc.constantFrom(0, 1, 127, 128, 129, 900).map(length => 'x'.repeat(length)),
)

function outcomeOf<T>(read: () => T): T | string {
  try {
    return read()
  } catch (error) {
    return String(error)
  }
}

test('an answer reads the same, whichever answers came before, and whatever follows its certificates', () => {
  const more = fc.constantFrom('', '', '1005', '0a0178')
  const usual = fc.constantFrom([intermediate, root], [intermediate + root])
  const certChains = fc.oneof(
    fc.tuple(element, usual).map(([first, issuers]) => [first, ...issuers]),
    fc.array(element, { maxLength: 4 }),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(certChains, more), { maxLength: 6 }), answers => {
      const reader = new ResponseReader()
      for (const [certChain, hex] of [...answers, ...answers]) {
        const bytes = Buffer.concat([encodeResponse({ certChain }), Buffer.from(hex, 'hex')])
        const elements = IstioCertificateResponse.decode(bytes).certChain
        assert.deepEqual(
          outcomeOf(() => reader.read(bytes, ANSWER)),
          outcomeOf(() => new ChainReader(true).read(elements, ANSWER)),
        )
        bytes.fill(0)
      }
    }),
    {
      examples: [
        [
          [
            [[web, intermediate, root], ''],
            [[web + intermediate, intermediate, root], ''],
          ],
        ],
      ],
    },
  )
})

test('an answer that breaks off is refused, also after one that did not, and changes nothing', () => {
  const reader = new ResponseReader()
  const bytes = encodeResponse({ certChain: [web, intermediate, root] })
  for (let round = 0; round < 2; round++) {
    assert.deepEqual(reader.read(bytes, ANSWER), { chain: [web, intermediate], roots: [root] })
    for (const length of [1, 2, 3, 200, web.length + 4, bytes.length - 1])
      assert.throws(() => reader.read(bytes.subarray(0, length), ANSWER), /is not an IstioCertificateResponse/)
  }
})

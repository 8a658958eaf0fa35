/** The requests to Istio's CA are encoded in the same memory, one after the other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IstioCertificateRequest } from '../gen/istio/v1/auth/ca.ts'
import { encodeRequest } from './istio-certificate-service.ts'

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

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { certificateTable } from './certs.ts'

test('a serial number is shown in whole bytes, as Envoy and livery explain show it', () => {
  const shown = (serialNumber: bigint) => {
    const leaf = {
      pem: '',
      serialNumber: String(serialNumber),
      validFrom: '',
      expirationTime: '2026-01-02T00:00:00.000Z',
    }
    const identity = 'spiffe://cluster.local/ns/default/sa/web'
    return certificateTable([{ identity, state: 'Available', certChain: [leaf], rootCerts: [] }], 0).split('\n')[1]
  }
  assert.match(shown(0x3a0859n) ?? '', / {2}3a0859 {2}/)
  assert.match(shown(0x3a08591n) ?? '', / {2}03a08591 {2}/)
})

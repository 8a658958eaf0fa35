import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { CertificateSecret } from './secret-item.ts'

const KEY = '-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n'

function secret(): CertificateSecret {
  return new CertificateSecret({
    identity: 'spiffe://cluster.local/ns/default/sa/web',
    version: 'v1',
    certificateChain: Buffer.from('chain'),
    privateKey: Buffer.from(KEY),
    notBefore: 0,
    notAfter: 1,
    serialNumber: '4A',
  })
}

test('a secret shows no key, however it is printed, serialised, cloned or thrown', () => {
  const item = secret()
  const cause = new Error('failed', { cause: item })
  const texts = [
    inspect(item, { depth: 10, showHidden: true }),
    inspect({ nested: [item] }, { depth: 10 }),
    inspect(cause, { depth: 10 }),
    JSON.stringify({ item }),
    `${item}`,
    JSON.stringify(structuredClone(item)),
    JSON.stringify({ ...item }),
  ]
  for (const text of texts) {
    assert.doesNotMatch(text, /canary|PRIVATE KEY/)
    assert.equal(text.includes(Buffer.from(KEY).toString('base64').slice(0, 20)), false)
    assert.equal(text.includes('45, 45, 45'), false)
  }
  assert.match(inspect(item), /\[secret\]/)
})

test('a wiped key is gone from the bytes that were handed in', () => {
  const item = secret()
  const bytes = item.privateKey()
  item.wipe()
  assert.ok(bytes.every(byte => byte === 0))
})

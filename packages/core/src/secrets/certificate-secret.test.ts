import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { plainKeyVault, SealedKey } from '../contract/key-vault.ts'
import { privateKeyOf } from '../testing/reveal-key.ts'
import { CertificateSecret } from './certificate-secret.ts'

const [LEAF, INTERMEDIATE, OTHER] = ['leaf', 'intermediate', 'other'].map(
  text => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`,
)
const KEY = '-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n'

function secret(certificateChain = `${LEAF}${INTERMEDIATE}`, privateKey = Buffer.from(KEY)): CertificateSecret {
  return new CertificateSecret({
    name: 'spiffe://cluster.local/ns/default/sa/web',
    version: 'v1',
    certificateChain,
    privateKey: new SealedKey(plainKeyVault, privateKey),
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
    inspect(item.privateKey, { depth: 10, showHidden: true }),
    JSON.stringify([item.privateKey, structuredClone(item.privateKey)]),
    `${item.privateKey}`,
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

test('a secret keeps its key and its chain unchanged, with its own intermediates, with shared ones, and without', () => {
  const chains = [`${LEAF}${INTERMEDIATE}`, LEAF, `${LEAF}${OTHER}${INTERMEDIATE}`, `${LEAF}${INTERMEDIATE}`]
  for (const chain of chains) {
    const item = secret(chain)
    assert.equal(Buffer.from(item.certificateChain).toString(), chain)
    assert.equal(privateKeyOf(item).toString(), KEY)
  }
  for (let index = 0; index < 100; index++) {
    const chain = `${LEAF}${LEAF}${index}`
    assert.equal(Buffer.from(secret(chain).certificateChain).toString(), chain)
  }
})

test("the key that was handed in is wiped, and the secret's key when asked", () => {
  const handedIn = Buffer.from(KEY)
  const item = secret(LEAF, handedIn)
  assert.ok(handedIn.every(byte => byte === 0))
  assert.equal(privateKeyOf(item).toString(), KEY)
  item.wipe()
  assert.equal(item.privateKey.isWiped, true)
  assert.equal(Buffer.from(item.certificateChain).toString(), LEAF)
})

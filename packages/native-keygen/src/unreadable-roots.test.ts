/** Roots that OpenSSL reads and BoringSSL does not: Envoy refuses all roots beside one. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { derToPem } from '@livery/core/plugin'
import * as forge from '../test/certificate-forge.ts'
import { leaf, makeIssuer, root } from '../test/corpus/certificates.ts'
import { askEnvoy, noEnvoy } from '../test/peer-verdicts.ts'
import { verdictOf } from '../test/verdict.ts'
import { lookup } from './addon.ts'
import { nativeCertificateVerifier } from './native-certificate-verifier.ts'

const { der, sequence } = forge
const version = (number: number) => ({ version: der(0xa0, der(0x02, Buffer.of(number - 1))) })

const UNREADABLE = {
  'of version 1 with extensions': version(1),
  'of version 2 with extensions': version(2),
  'of version 4': version(4),
  'with U+FFFE in a BMPString': { subject: forge.name(Buffer.of(0, 0x77, 0xff, 0xfe), 0x1e) },
  'with an empty part of its name': { subject: sequence(der(0x31)) },
}

const pem = (...ders: readonly Buffer[]) => ders.map(each => derToPem(each, 'CERTIFICATE'))

for (const [what, parts] of Object.entries(UNREADABLE)) {
  const bad = makeIssuer('unreadable', parts).der

  test(`a root ${what} is not read, and a leaf is judged without it`, {
    skip: lookup.addon ? false : lookup.reason,
  }, () => {
    const verifier = nativeCertificateVerifier
    assert.equal(verifier?.readsRoot?.(new X509Certificate(bad)), false)
    assert.equal(verifier?.readsRoot?.(new X509Certificate(root.der)), true)
    const verdict = verifier && verdictOf(verifier, { chain: [leaf(root)], roots: [bad, root.der] })
    assert.ok(typeof verdict === 'object', String(verdict))
  })
}

test('Envoy refuses a bundle with the root, and loads it without', { skip: noEnvoy }, async () => {
  const bundles = Object.values(UNREADABLE).map(parts => ({
    roots: pem(root.der, makeIssuer('unreadable', parts).der),
  }))
  const refused = await askEnvoy([...bundles, { roots: pem(root.der) }], bundles.length + 1)
  assert.deepEqual([...refused.keys()], [...bundles.keys()])
})

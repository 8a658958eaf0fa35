/** Revocation lists and SPIFFE bundles, damaged: they are refused by a `TypeError`, or what was read is in the text. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { makeCrl, makeIssuer } from '../../src/testing/test-ca.ts'
import { readSpiffeBundle } from '../../src/trust/spiffe-bundle.ts'
import { readCertificate } from '../../src/x509/certificate.ts'
import { readCrls } from '../../src/x509/crl.ts'
import { pemToDer } from '../../src/x509/pem.ts'

const NOW = Date.UTC(2026, 0, 1)
const issuer = await makeIssuer('CN=fuzz', NOW)
const certificate = readCertificate(pemToDer(issuer.pem))
const good = pemToDer(await makeCrl(issuer, ['4a01', '4a02'], { thisUpdate: NOW, nextUpdate: NOW + 1_000 }))

const key = fc.record(
  {
    use: fc.constantFrom('x509-svid', 'jwt-svid', 5),
    x5c: fc.oneof(fc.array(fc.oneof(fc.base64String(), fc.jsonValue()), { maxLength: 3 }), fc.jsonValue()),
  },
  { requiredKeys: [] },
)

export const inputs = fc.record({
  edits: fc.array(fc.record({ at: fc.nat({ max: good.length - 1 }), byte: fc.nat({ max: 255 }) }), { maxLength: 4 }),
  length: fc.nat({ max: good.length }),
  bundle: fc.oneof(fc.jsonValue(), fc.record({ keys: fc.array(fc.oneof(key, fc.jsonValue()), { maxLength: 120 }) })),
})

interface Input {
  readonly edits: readonly { readonly at: number; readonly byte: number }[]
  readonly length: number
  readonly bundle: unknown
}

export function run({ edits, length, bundle }: Input): void {
  const der = Buffer.from(good)
  for (const { at, byte } of edits) der[at] = byte
  for (const bytes of [der, der.subarray(0, length)]) {
    const crls = orRefused(() =>
      readCrls(`-----BEGIN X509 CRL-----\n${bytes.toString('base64')}\n-----END X509 CRL-----\n`),
    )
    for (const { pem, isSignedBy } of crls ?? []) {
      assert.ok(pemToDer(pem).equals(bytes))
      isSignedBy(certificate)
    }
  }
  const read = orRefused(() => readSpiffeBundle(bundle))
  if (read) assert.ok(read.roots.length <= 101 && read.roots.every(root => typeof root === 'string'))
}

function orRefused<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    assert.ok(error instanceof TypeError, String(error))
    return undefined
  }
}

/** CSRs to the embedded CA, damaged element by element: refused, or signed for the key that signed the request. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { CAError } from '@livery/core/plugin'
import { FakeClock, TestKeyGenerator } from '@livery/core/testing'
import fc from 'fast-check'
import { CertificateAuthority } from '../../src/plugins/embedded/certificate-authority.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const authority = await CertificateAuthority.open({ clock: new FakeClock(), trustDomain: 'cluster.local' })
const { csrDer, publicKeyDer } = await new TestKeyGenerator().generate({
  type: 'ecdsa-p256',
  identity: WEB,
  format: 'pkcs8',
})

const edit = fc.record({
  kind: fc.constantFrom('set', 'insert', 'delete', 'double'),
  at: fc.nat(csrDer.length - 1),
  bytes: fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 6 }),
    fc.constantFrom('3080', '0500', '30847fffffff', 'a0', '0000', '1f8180').map(hex => Buffer.from(hex, 'hex')),
  ),
})

export const inputs = fc.oneof(
  { weight: 8, arbitrary: fc.record({ edits: fc.array(edit, { minLength: 1, maxLength: 4 }) }) },
  { weight: 1, arbitrary: fc.record({ raw: fc.uint8Array({ maxLength: 300 }) }) },
  // Deeply nested, up to beyond what is taken.
  {
    weight: 1,
    arbitrary: fc.record({ open: fc.constantFrom('3080', '3082ffff', 'a080', '2480'), depth: fc.nat(9_000) }),
  },
)

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never

export async function run(input: Input): Promise<void> {
  try {
    const { chain } = await authority.sign({ identity: WEB, csr: bytesOf(input), ttlSeconds: 60 })
    const leaf = new X509Certificate(chain[0] ?? '')
    assert.equal(leaf.subjectAltName, `URI:${WEB}`)
    assert.deepEqual(leaf.publicKey.export({ type: 'spki', format: 'der' }), Buffer.from(publicKeyDer))
  } catch (error) {
    assert.ok(error instanceof CAError, error instanceof Error ? error.stack : String(error))
    assert.equal(error.code, 'invalid-csr')
  }
}

function bytesOf(input: Input): Uint8Array {
  if ('raw' in input) return input.raw
  if ('depth' in input) return Buffer.from(input.open.repeat(input.depth), 'hex')
  return input.edits.reduce<Uint8Array>((der, { kind, at, bytes }) => {
    const rest = kind === 'insert' ? at : kind === 'double' ? 0 : at + bytes.length
    return Buffer.concat([der.subarray(0, at), kind === 'delete' ? Buffer.alloc(0) : bytes, der.subarray(rest)])
  }, csrDer)
}

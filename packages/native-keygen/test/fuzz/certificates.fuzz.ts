/** Chains, roots and private keys through the addon: a verdict for each, no panic, no path that takes long to find or to refuse. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { nodeCertificateVerifier } from '@livery/core'
import { CAError, derToPem } from '@livery/core/plugin'
import fc from 'fast-check'
import { nativeCertificateVerifier } from '../../src/native-certificate-verifier.ts'
import * as corpus from '../corpus/certificates.ts'
import { mutate, mutations } from '../der-mutation.ts'

const verifier = nativeCertificateVerifier ?? nodeCertificateVerifier
const { leaf, leafKey, makeIssuer, middle, root } = corpus

/** Twins: the same name, signed by one another in both directions, so that there are many ways and most lead nowhere. */
const key = corpus.ecKey()
const other = corpus.ecKey()
const twins = [0, 1, 2, 3].flatMap(index => [
  makeIssuer('twin', { key, parent: { ...makeIssuer('twin', { key: other }) }, serial: Buffer.of(2, 1, index + 1) }),
  makeIssuer('twin', { key: other, parent: { ...makeIssuer('twin', { key }) }, serial: Buffer.of(2, 1, index + 11) }),
])
const underTwin = leaf({ ...(twins[0] ?? root) })
const blocks = [leaf(root), leaf(middle), middle.der, root.der, underTwin, ...twins.map(twin => twin.der)]
const keyPem = Buffer.from(leafKey.export({ format: 'pem', type: 'pkcs8' }).toString())
const sec1Pem = Buffer.from(leafKey.export({ format: 'pem', type: 'sec1' }).toString())

const certificate = fc.record({ block: fc.nat(blocks.length - 1), damage: fc.option(mutations, { freq: 2 }) })
const edit = fc.record({ at: fc.nat(400), bytes: fc.uint8Array({ maxLength: 4 }) })

export const inputs = fc.record({
  chain: fc.array(certificate, { minLength: 1, maxLength: 10 }),
  roots: fc.array(fc.nat(blocks.length - 1), { maxLength: 100 }),
  key: fc.record({ isSec1: fc.boolean(), edits: fc.array(edit, { maxLength: 2 }) }),
  raw: fc.option(fc.uint8Array({ maxLength: 200 }), { freq: 10 }),
})

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never

const anchors = blocks.map(der => new X509Certificate(der))

export function run(input: Input): void {
  const chain = input.chain.map(({ block, damage }) => derToPem(damaged(block, damage), 'CERTIFICATE'))
  if (input.raw) chain.push(derToPem(input.raw, 'CERTIFICATE'))
  const roots = input.roots.flatMap(index => anchors[index] ?? [])
  for (const given of [{ publicKeyDer: leafPublicKey }, { privateKeyPem: privateKey(input.key) }]) {
    try {
      const verified = verifier.verify(chain, {
        identity: corpus.identity,
        key: given,
        anchors: roots,
        now: corpus.now,
      })
      assert.ok(roots.some(each => each.fingerprint256.replaceAll(':', '').toLowerCase() === verified.rootFingerprint))
    } catch (error) {
      assert.ok(error instanceof CAError, error instanceof Error ? error.stack : String(error))
      assert.equal(error.code, 'bad-response')
    }
  }
}

const leafPublicKey = new X509Certificate(leaf(root)).publicKey.export({ type: 'spki', format: 'der' })

function damaged(block: number, damage: Input['chain'][number]['damage']): Buffer {
  const der = blocks[block] ?? root.der
  return damage === null ? der : mutate(der, damage)
}

function privateKey({ isSec1, edits }: Input['key']): Buffer {
  return edits.reduce(
    (pem, { at, bytes }) => {
      const position = at % pem.length
      return Buffer.concat([pem.subarray(0, position), bytes, pem.subarray(position + bytes.length)])
    },
    isSec1 ? sec1Pem : keyPem,
  )
}

/** Whether Envoy's own library would refuse a chain that is good by RFC 5280. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeCertificateVerifier } from '@livery/core'
import * as forge from '../test/certificate-forge.ts'
import type { Case } from '../test/corpus/case.ts'
import { CA_EXTENSIONS, leaf, makeIssuer, root, withExtension } from '../test/corpus/certificates.ts'
import { corpus } from '../test/corpus/corpus.ts'
import { clientRefusalOf } from '../test/verdict.ts'
import { lookup } from './addon.ts'
import { nativeCertificateVerifier } from './native-certificate-verifier.ts'

const native = nativeCertificateVerifier ?? nodeCertificateVerifier
const skip = lookup.addon ? false : lookup.reason
const { der, sequence, extension } = forge

/** The cases that are good by RFC 5280, and that BoringSSL refuses. */
const REFUSED: Record<string, RegExp> = {
  'two roots of the same name': /certificate signature failure|another key/,
}

for (const [what, answer] of Object.entries(corpus()).filter(([, { refused }]) => !refused)) {
  const refused = REFUSED[what]
  test(`${what}: ${refused ? 'refused' : 'taken'} by Envoy's library`, { skip }, () => {
    const refusal = clientRefusalOf(native, answer)
    if (refused) assert.match(refusal ?? '', refused)
    else assert.equal(refusal, undefined)
  })
}

/** A root of the name `root` with this key identifier. */
function identified(...id: readonly number[]) {
  return makeIssuer('root', { extensions: [...CA_EXTENSIONS, extension('2.5.29.14', der(0x04, Buffer.from(id)))] })
}

function below(issuer: ReturnType<typeof identified>, ...id: readonly number[]): Buffer {
  return leaf(issuer, withExtension(extension('2.5.29.35', sequence(der(0x80, Buffer.from(id))))))
}

const NAMESAKES: Record<string, { readonly answer: () => Case; readonly isTaken: boolean }> = {
  'without key identifiers': {
    isTaken: false,
    answer: () => {
      const other = makeIssuer('root')
      return { chain: [leaf(other)], roots: [root.der, other.der] }
    },
  },
  'whose key identifiers the leaf does not name': {
    isTaken: false,
    answer: () => {
      const [one, other] = [identified(1), identified(2)]
      return { chain: [leaf(one)], roots: [one.der, other.der] }
    },
  },
  'of which the leaf names one': {
    isTaken: true,
    answer: () => {
      const [one, other] = [identified(1), identified(2)]
      return { chain: [below(one, 1)], roots: [other.der, one.der] }
    },
  },
  'of which one has a key identifier, the one that the leaf names': {
    isTaken: false,
    answer: () => {
      const one = identified(1)
      return { chain: [below(one, 1)], roots: [one.der, root.der] }
    },
  },
}

for (const [what, { answer, isTaken }] of Object.entries(NAMESAKES)) {
  test(`two roots of one name ${what}: ${isTaken ? 'taken' : 'refused'} in either order`, { skip }, () => {
    const { chain, roots = [] } = answer()
    for (const ordered of [roots, roots.toReversed()]) {
      const refusal = clientRefusalOf(native, { chain, roots: ordered })
      assert.equal(refusal === undefined, isTaken, refusal)
    }
  })
}

test('a verdict is remembered for the roots that it is for, and for no others', { skip }, () => {
  const other = makeIssuer('root')
  const chain = () => [leaf(other)]
  for (let round = 0; round < 2; round++) {
    assert.equal(clientRefusalOf(native, { chain: chain(), roots: [other.der] }), undefined)
    assert.notEqual(clientRefusalOf(native, { chain: chain(), roots: [other.der, root.der] }), undefined)
  }
})

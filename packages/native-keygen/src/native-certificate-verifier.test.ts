import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeCertificateVerifier } from '@livery/core'
import { corpus } from '../test/corpus/corpus.ts'
import { verdictOf } from '../test/verdict.ts'
import { lookup } from './addon.ts'
import { nativeCertificateVerifier } from './native-certificate-verifier.ts'

const native = nativeCertificateVerifier ?? nodeCertificateVerifier
const skip = lookup.addon ? false : lookup.reason

test('there is a native verifier exactly where there is the addon', () => {
  assert.equal(nativeCertificateVerifier === undefined, lookup.addon === undefined)
})

for (const [what, answer] of Object.entries(corpus())) {
  test(`${what}: ${answer.refused ? 'refused' : 'accepted'} natively as by Node, in the same words`, { skip }, () => {
    const verdict = verdictOf(native, answer)
    assert.deepEqual(verdict, verdictOf(nodeCertificateVerifier, answer))
    if (answer.refused) assert.match(String(verdict), answer.refused)
    else assert.equal(typeof verdict, 'object', String(verdict))
  })
}

/** A verifier's verdict on an answer of a CA: the facts, or the reason against it. */
import assert from 'node:assert/strict'
import { CAError, type CertificateVerifier, derToPem, type VerifiedChain } from '@livery/core'
import { type Case, expectationOf } from './corpus/case.ts'

export function verdictOf(verifier: CertificateVerifier, answer: Case): VerifiedChain | string {
  const chain = answer.chain.map(der => derToPem(der, 'CERTIFICATE'))
  try {
    return verifier.verify(chain, expectationOf(answer))
  } catch (error) {
    assert.ok(error instanceof CAError, String(error))
    assert.equal(error.code, 'bad-response')
    return error.message
  }
}

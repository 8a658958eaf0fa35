/** A verifier's verdict on an answer of a CA: the facts, or the reason against it, and the verdict of clients. */
import assert from 'node:assert/strict'
import { CAError, type CertificateVerifier, derToPem, type VerifiedChain } from '@livery/core'
import { type Case, expectationOf } from './corpus/case.ts'

/** Without the verdict of clients, which not every verifier can ask. */
export function verdictOf(verifier: CertificateVerifier, answer: Case): VerifiedChain | string {
  try {
    const { clientRefusal: _, ...verified } = verify(verifier, answer)
    return verified
  } catch (error) {
    assert.ok(error instanceof CAError, String(error))
    assert.equal(error.code, 'bad-response')
    return error.message
  }
}

/** Why clients would refuse an answer that is good. */
export function clientRefusalOf(verifier: CertificateVerifier, answer: Case): string | undefined {
  return verify(verifier, answer).clientRefusal
}

function verify(verifier: CertificateVerifier, answer: Case): VerifiedChain {
  const chain = answer.chain.map(der => derToPem(der, 'CERTIFICATE'))
  return verifier.verify(chain, expectationOf(answer))
}

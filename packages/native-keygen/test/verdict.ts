/** A verifier's verdict on an answer of a CA: the facts, or the reason against it, and the verdict of clients. */
import assert from 'node:assert/strict'
import type { CertificateVerifier, VerifiedChain } from '@livery/core'
import { CAError, derToPem } from '@livery/core/plugin'
import { type Case, expectationOf } from './corpus/case.ts'

/** The verdict without the clients', which not every verifier can ask. */
export function verdictOf(verifier: CertificateVerifier, answer: Case): VerifiedChain | string {
  try {
    return withoutClients(verify(verifier, answer))
  } catch (error) {
    return messageOf(error)
  }
}

/** As {@link verdictOf}, from another thread. */
export async function laterVerdictOf(verifier: CertificateVerifier, answer: Case): Promise<VerifiedChain | string> {
  assert.ok(verifier.verifyLater)
  try {
    return withoutClients(await verifier.verifyLater(pemOf(answer), expectationOf(answer)))
  } catch (error) {
    return messageOf(error)
  }
}

function withoutClients({ clientRefusal: _, ...verified }: VerifiedChain): VerifiedChain {
  return verified
}

function messageOf(error: unknown): string {
  assert.ok(error instanceof CAError, String(error))
  assert.equal(error.code, 'bad-response')
  return error.message
}

/** Why clients would refuse an answer that is good. */
export function clientRefusalOf(verifier: CertificateVerifier, answer: Case): string | undefined {
  return verify(verifier, answer).clientRefusal
}

function verify(verifier: CertificateVerifier, answer: Case): VerifiedChain {
  return verifier.verify(pemOf(answer), expectationOf(answer))
}

export function pemOf({ chain }: Case): readonly string[] {
  return chain.map(der => derToPem(der, 'CERTIFICATE'))
}

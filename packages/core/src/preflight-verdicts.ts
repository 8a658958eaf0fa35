/** Whether clients would refuse a certificate with the roots served now: judged once for each kind at each moment. */

import { CAError } from './contract/ca-client.ts'
import type { CertificateVerifier } from './contract/certificate-verifier.ts'
import { type SpiffeId, trustDomainOf } from './spiffe/spiffe-id.ts'
import { type Issued, kindOf } from './state/identity.ts'
import type { BundleTable } from './trust/bundle-table.ts'
import { faultOf } from './x509/ca-answer-verifier.ts'
import { splitCertificates } from './x509/pem.ts'

export class PreflightVerdicts {
  readonly #verifier: CertificateVerifier
  readonly #bundles: BundleTable
  /** Thousands of certificates share one kind, and are judged at one moment. */
  readonly #verdicts = new Map<string, string | undefined>()
  #judgedAt = Number.NaN

  constructor(verifier: CertificateVerifier, bundles: BundleTable) {
    this.#verifier = verifier
    this.#bundles = bundles
  }

  /** Why clients would refuse it, or another of its kind, at `now` (milliseconds since the epoch). */
  refusalOf(issued: Issued, id: SpiffeId, now: number): string | undefined {
    if (this.#judgedAt !== now) this.#verdicts.clear()
    this.#judgedAt = now
    const roots = this.#bundles.current(trustDomainOf(id), id)
    const key = `${roots?.version} ${kindOf(issued)}`
    if (!this.#verdicts.has(key)) this.#verdicts.set(key, this.#judge(issued, id, now))
    return this.#verdicts.get(key)
  }

  #judge({ secret, clientRefusal }: Issued, id: SpiffeId, now: number): string | undefined {
    const chain = splitCertificates(secret.certificateChain.toString('latin1'))
    const anchors = this.#bundles.anchorsFor(id, []).map(({ certificate }) => certificate)
    try {
      return secret.privateKey.open(
        privateKeyPem =>
          this.#verifier.verify(chain, { identity: id, key: { privateKeyPem }, anchors, now }).clientRefusal,
      )
    } catch (error) {
      return error instanceof CAError ? faultOf(error) : clientRefusal
    }
  }
}

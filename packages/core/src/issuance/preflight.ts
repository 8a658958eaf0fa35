/** Pre-flight: no leaf that clients would refuse with the roots that they are served, while there is a better one. */

import { CAError } from '../contract/ca-client.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Issued } from '../identity/issued-certificate.ts'
import type { ManagedIdentity } from '../identity/managed-identity.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import type { TrustStore } from '../trust/trust-store.ts'
import { type CertificateVerifier, faultOf } from '../x509/ca-answer-verifier.ts'
import { splitCertificates } from '../x509/pem.ts'
import { isEnding } from './renewal-time.ts'

export interface PreflightOptions {
  readonly verifier: CertificateVerifier
  readonly trust: TrustStore
  readonly clock: Clock
  readonly identities: ReadonlyMap<SpiffeId, ManagedIdentity>
  readonly record: (name: string, event: SecretEvent) => void
}

/** Kinds of leaves that are checked when the roots change: a CA has few, and the event loop waits. */
const MAX_CHECKED = 16

export class Preflight {
  readonly #options: PreflightOptions
  /** By kind: thousands of certificates are of one, and are asked about in one moment. */
  readonly #verdicts = new Map<string, string | undefined>()
  #judgedAt = Number.NaN

  constructor(options: PreflightOptions) {
    this.#options = options
  }

  /** Why clients would refuse it, or another of its kind, with the roots that they are served now. */
  refusalOf(issued: Issued, identity: SpiffeId): string | undefined {
    const { clock, trust } = this.#options
    if (this.#judgedAt !== clock.now()) this.#verdicts.clear()
    this.#judgedAt = clock.now()
    const key = `${trust.bundles.own(identity) ? identity : trustDomainOf(identity)} ${issued.kind}`
    if (!this.#verdicts.has(key)) this.#verdicts.set(key, this.#judge(issued, identity))
    return this.#verdicts.get(key)
  }

  /**
   * Whether a certificate that clients would refuse for `reason` is served all the same: there is none, or only one that
   * is about to end or that they would refuse as well. Reports it.
   */
  allows(managed: ManagedIdentity, reason: string): boolean {
    const isServed = !this.#hasBetter(managed)
    if (!isServed) managed.withhold(reason)
    this.#options.record(managed.identity, { kind: 'preflight-failed', reason, isServed })
    return isServed
  }

  /** Reports leaves in use that clients refuse now that these roots are served: one of each kind. */
  check(bundle: TrustBundle): void {
    this.#verdicts.clear()
    const seen = new Set<string>()
    for (const { identity, served } of this.#membersOf(bundle)) {
      const { current } = served
      if (seen.size === MAX_CHECKED) return
      if (!current || current.clientRefusal !== undefined || seen.has(current.kind)) continue
      seen.add(current.kind)
      const refusal = this.refusalOf(current, identity)
      if (refusal === undefined) continue
      const reason = `${identity}, and others of its issuer and key: ${refusal}`
      this.#options.record(bundle.name, { kind: 'preflight-failed', reason, isServed: true })
    }
  }

  #judge({ secret, clientRefusal }: Issued, identity: SpiffeId): string | undefined {
    const { verifier, trust, clock } = this.#options
    const chain = splitCertificates(secret.certificateChain.toString('latin1'))
    const anchors = trust.anchorsFor({ identity, roots: [] }).map(({ certificate }) => certificate)
    try {
      return secret.privateKey.open(
        privateKeyPem =>
          verifier.verify(chain, { identity, key: { privateKeyPem }, anchors, now: clock.now() }).clientRefusal,
      )
    } catch (error) {
      return error instanceof CAError ? faultOf(error) : clientRefusal
    }
  }

  #hasBetter({ identity, worthKeeping }: ManagedIdentity): boolean {
    if (!worthKeeping) return false
    const { receivedAt, secret } = worthKeeping
    if (isEnding({ receivedAt, notAfter: secret.notAfter }, this.#options.clock.now())) return false
    return this.refusalOf(worthKeeping, identity) === undefined
  }

  *#membersOf({ owner, trustDomain }: TrustBundle): Iterable<ManagedIdentity> {
    const { identities } = this.#options
    const own = owner && identities.get(owner)
    if (own) yield own
    if (owner) return
    for (const managed of identities.values()) if (trustDomainOf(managed.identity) === trustDomain) yield managed
  }
}

/** The answer replaces nothing; it is tried again as any bad one. */
export function preflightFailed(identity: SpiffeId, reason: string): CAError {
  return new CAError(
    'bad-response',
    `preflight-failed: clients would refuse the certificate for ${identity} with the roots that they are served, so the one in use stays: ${reason}`,
  )
}

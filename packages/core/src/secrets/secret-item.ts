/** A secret as SDS serves it: a certificate with its key, the roots of one trust domain or of all, or a token. */
import { inspect } from 'node:util'
import type { SealedKey } from '../contract/key-vault.ts'
import type { CertificateSecret } from './certificate-secret.ts'

/** One version of a secret. Two items with the same `version` carry the same certificates. */
export type SecretItem = CertificateSecret | TrustBundleSecret | AllBundlesSecret | TokenSecret

/** The roots of one trust domain, or in one file. */
export class TrustBundleSecret {
  readonly kind = 'bundle'
  /** The name that it is listed under: the SPIFFE ID of its trust domain, or the name of its file. */
  readonly name: string
  /** SHA-256 (hex) of the sorted SHA-256 fingerprints, and of the revocation lists: the order and form of the input do not matter. */
  readonly version: string
  /** PEM, sorted by fingerprint, without duplicates. */
  readonly trustedCa: Uint8Array
  /** PEM, where the operator gives revocation lists. */
  readonly crl: Uint8Array | undefined
  readonly #fingerprints: ReadonlySet<string> | undefined

  /** `fingerprints`: of the roots, for {@link has}; absent if no caller needs it. */
  constructor(fields: {
    readonly name: string
    readonly version: string
    readonly trustedCa: Uint8Array
    readonly crl?: Uint8Array
    readonly fingerprints?: ReadonlySet<string>
  }) {
    this.name = fields.name
    this.version = fields.version
    this.trustedCa = fields.trustedCa
    this.crl = fields.crl
    this.#fingerprints = fields.fingerprints
  }

  /** Whether the root with this fingerprint is in it. */
  has(fingerprint: string): boolean {
    return this.#fingerprints?.has(fingerprint) ?? false
  }
}

/** A token of a caller. Prints, serialises and clones without the token. */
export class TokenSecret {
  readonly kind = 'token'
  /** The name that it is listed under, with its pod. */
  readonly name: string
  /** SHA-256 (hex) of the token, which is signed and so cannot be guessed. */
  readonly version: string
  readonly #token: SealedKey

  /** `token` is taken over. */
  constructor(fields: { readonly name: string; readonly version: string; readonly token: SealedKey }) {
    this.name = fields.name
    this.version = fields.version
    this.#token = fields.token
  }

  /** As {@link CertificateSecret.privateKey}. */
  get token(): SealedKey {
    return this.#token
  }

  /** As {@link CertificateSecret.wipe}. */
  wipe(): void {
    this.#token.wipe()
  }

  toJSON(): string {
    return '[secret]'
  }

  [inspect.custom](): string {
    return `TokenSecret(${this.name}) [secret]`
  }
}

/** The ledger's name for the bundles of all trust domains together. */
export const ALL_BUNDLES = 'all-bundles'

/** The bundle of one trust domain among several. */
export interface DomainBundle {
  readonly trustDomain: string
  readonly bundle: TrustBundleSecret
}

/** The roots of all trust domains, kept apart: a peer is verified with the roots of its trust domain alone. */
export class AllBundlesSecret {
  readonly kind = 'all-bundles'
  readonly name = ALL_BUNDLES
  /** SHA-256 (hex) of the trust domains and the versions of their bundles. */
  readonly version: string
  /** The bundle of the agent's own trust domain, if it has roots. */
  readonly own: TrustBundleSecret | undefined
  /** Sorted by trust domain, at least one. */
  readonly bundles: readonly DomainBundle[]

  constructor(fields: Pick<AllBundlesSecret, 'version' | 'own' | 'bundles'>) {
    this.version = fields.version
    this.own = fields.own
    this.bundles = fields.bundles
  }
}

/** What SDS hands out: a key with its certificate chain, or a set of roots. */
import { inspect } from 'node:util'
import type { SpiffeId } from './spiffe-id.ts'

/** One version of a secret. Two items with the same `version` carry the same certificates. */
export type SecretItem = CertificateSecret | TrustBundleSecret

/** An X509-SVID with its private key. Prints, serialises and clones without the key. */
export class CertificateSecret {
  readonly kind = 'certificate'
  readonly identity: SpiffeId
  /** SHA-256 (hex) of the chain's DER, never of the key. */
  readonly version: string
  /** PEM, leaf first, without the root. */
  readonly certificateChain: Uint8Array
  readonly notBefore: number
  readonly notAfter: number
  /** Lower-case hex, as Envoy's `/certs` prints it. */
  readonly serialNumber: string
  readonly #privateKey: Uint8Array

  constructor(fields: {
    readonly identity: SpiffeId
    readonly version: string
    readonly certificateChain: Uint8Array
    readonly privateKey: Uint8Array
    readonly notBefore: number
    readonly notAfter: number
    readonly serialNumber: string
  }) {
    this.identity = fields.identity
    this.version = fields.version
    this.certificateChain = fields.certificateChain
    this.notBefore = fields.notBefore
    this.notAfter = fields.notAfter
    this.serialNumber = fields.serialNumber
    this.#privateKey = fields.privateKey
  }

  /** PEM. Copied into the encoded response and nowhere else. */
  privateKey(): Uint8Array {
    return this.#privateKey
  }

  /** Overwrites the key. Only the SecretManager calls it, once no stream can be handed this item any more. */
  wipe(): void {
    this.#privateKey.fill(0)
  }

  toJSON(): string {
    return '[secret]'
  }

  [inspect.custom](): string {
    return `CertificateSecret(${this.identity}, serial ${this.serialNumber}) [secret]`
  }
}

/** The roots of one trust domain. */
export class TrustBundleSecret {
  readonly kind = 'bundle'
  readonly trustDomain: string
  /** SHA-256 (hex) of the sorted SHA-256 fingerprints: the order and form of the input do not matter. */
  readonly version: string
  /** PEM, sorted by fingerprint, without duplicates. */
  readonly trustedCa: Uint8Array

  constructor(fields: { readonly trustDomain: string; readonly version: string; readonly trustedCa: Uint8Array }) {
    this.trustDomain = fields.trustDomain
    this.version = fields.version
    this.trustedCa = fields.trustedCa
  }
}

/** The interface of a generator of private keys and certificate signing requests. */
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

/** Key types by their names in the configuration. */
export const KEY_TYPES = ['ecdsa-p256', 'ecdsa-p384', 'rsa-2048', 'rsa-3072', 'rsa-4096'] as const
export type KeyType = (typeof KEY_TYPES)[number]

/** PEM form of a private key: PKCS#8 (RFC 5958), or the older form of its type (SEC1, RFC 5915; PKCS#1, RFC 8017). */
export type PrivateKeyFormat = 'pkcs8' | 'traditional'

export interface KeyRequest {
  readonly type: KeyType
  /** Goes into the CSR as its one URI SAN, and the SAN is critical; the subject stays empty (SPIFFE X509-SVID, section 4). */
  readonly identity: SpiffeId
  /** Go into the SAN as well. Default: none. */
  readonly dnsNames?: readonly string[]
  /** Default: `pkcs8`. */
  readonly format?: PrivateKeyFormat
}

export interface GeneratedKey {
  /** PEM, newline at the end. The receiver owns the bytes and wipes them (`fill(0)`) when it lets go of the key. */
  readonly privateKeyPem: Uint8Array
  /** PKCS#10 (RFC 2986). */
  readonly csrDer: Uint8Array
  /** SubjectPublicKeyInfo (RFC 5280, section 4.1) of the key. */
  readonly publicKeyDer: Uint8Array
}

/** Makes keys off the event loop. The suite of `@livery/native-keygen/suite` proves an implementation. */
export interface KeyGenerator {
  /** `native` or `webcrypto`, for logs and metrics. */
  readonly name: string
  /** Rejects with the signal's reason when aborted, with a `TypeError` for a request it does not understand. */
  generate(request: KeyRequest, options?: { readonly signal?: AbortSignal }): Promise<GeneratedKey>
  /** All or nothing, in the order of the requests. */
  generateBatch(
    requests: readonly KeyRequest[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly GeneratedKey[]>
}

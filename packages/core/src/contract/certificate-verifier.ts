/** The judge of certificate chains: what a CA's answer has to meet, the facts that are read from it, and what is known of one that fits. */
import type { X509Certificate } from 'node:crypto'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

/** How far ahead of our clock a CA's notBefore may be; until then the certificate is held. */
export const MAX_CLOCK_SKEW_MS = 5 * 60_000

/** The conditions that a CA's answer has to meet. */
export interface Expectation {
  readonly identity: SpiffeId
  /** It carries these DNS names beside its identity, and no other name. Absent: names of other kinds do not matter. */
  readonly dnsNames?: readonly string[]
  /** The key that was generated (SubjectPublicKeyInfo DER), or the private key that a key-bringing source gave (PEM). */
  readonly key: { readonly publicKeyDer: Uint8Array } | { readonly privateKeyPem: Uint8Array }
  /** The trust anchors, as certificates. */
  readonly anchors: readonly X509Certificate[]
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** The facts about a chain that fits. */
export interface VerifiedChain {
  /** PEM, leaf first, each issued by the next, without root and without certificates that lead nowhere. */
  readonly chainPem: string
  /** SHA-256 (hex) of the chain's DER. */
  readonly version: string
  /** SHA-256 (hex) of the DER of the root that the chain ends under. */
  readonly rootFingerprint: string
  readonly serialNumber: string
  /** When every certificate from the leaf to the root is valid, milliseconds since the epoch: a peer needs all of them. */
  readonly notBefore: number
  readonly notAfter: number
  /**
   * Why clients with exactly these anchors would refuse it, as judged by BoringSSL's X.509 code, which Envoy uses;
   * absent if none would, or if this verifier cannot ask.
   */
  readonly clientRefusal?: string | undefined
}

export interface CertificateVerifier {
  /** Checks a CA's answer, leaf first; throws a {@link CAError} `bad-response` that names the fault. */
  verify(chain: readonly string[], expected: Expectation): VerifiedChain
  /**
   * The same verdict from another thread: chains from one turn of the event loop travel together. Reads `expected.key`
   * before it returns, since the caller may wipe it then. Rejects with the error that `verify` throws. Absent: there is no
   * other thread, and callers use `verify`.
   */
  verifyLater?(chain: readonly string[], expected: Expectation): Promise<VerifiedChain>
  /** Whether BoringSSL reads the root: Envoy refuses a whole bundle for one that it does not. Absent: this verifier cannot tell. */
  readsRoot?(root: X509Certificate): boolean
}

/** The facts read from a chain before it is judged; `createCertificateVerifier` judges alike, whichever reader was used. */
export interface ChainFacts {
  /** The leaf's URI names; `undefined` if one has a character that no URI has. */
  readonly uris: readonly string[] | undefined
  /** Its DNS names, as they are written. */
  readonly dnsNames: readonly string[]
  /** The number of its other names. */
  readonly otherNames: number
  /** Whether the leaf's key is the one expected; `undefined` if a private key to compare with cannot be read. */
  readonly keyMatches: boolean | undefined
  /** Milliseconds since the epoch; NaN if unreadable. */
  readonly notBefore: number
  readonly notAfter: number
  readonly isCa: boolean
  /** Whether an extended key usage, if there is one, names both server and client authentication. */
  readonly servesTls: boolean
  /** Whether a key usage, if there is one, has digitalSignature. */
  readonly signsHandshakes: boolean
  /** Whether a key usage has keyCertSign or cRLSign. */
  readonly claimsToCertify: boolean
  /** Whether the leaf's key is RSA of 2048 to 8192 bits, P-256, P-384 or P-521. */
  readonly hasTlsKey: boolean
  readonly serialNumber: string
  /**
   * The path from the leaf to one of the anchors, or why each certificate with an issuer's name is not its issuer. Only the
   * certificates on the path are served: a peer must find the same path.
   */
  readonly path: ChainPath | { readonly refused: string | undefined }
}

export type ChainPath = Omit<VerifiedChain, 'serialNumber'>

/** Reads a chain (DER, leaf first, never empty), or names the element of the path that is not a certificate. Does not throw. */
export type ReadChain = (
  chain: readonly Buffer[],
  expected: Expectation,
) => ChainFacts | { readonly unreadable: number; readonly cause?: unknown }

/** {@link ReadChain} on another thread. Reads `expected.key` before it returns. */
export type ReadChainLater = (...question: Parameters<ReadChain>) => Promise<ReturnType<ReadChain>>

/** The one interface to any certificate authority, and the errors of its answers. */
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

/**
 * A certificate authority, seen from the agent.
 *
 * A plugin holds no private key, keeps no cache and does not retry (one reconnect of a dead channel at most): the
 * SecretManager owns retry, backoff and the checks of what came back.
 */
export interface CAClient extends AsyncDisposable {
  /**
   * Resolves with a certificate for `request.identity`; rejects with a {@link CAError}. Honours `request.signal`
   * (rejects with its reason). Safe to call concurrently.
   */
  issue(request: CertificateRequest): Promise<IssuedCertificate>
  /**
   * The CA's trust anchors now (PEM, one certificate per element), if it can list them apart from a chain. The list
   * is complete: the CA has given up a root that is missing from it.
   */
  trustBundle?(options: { readonly signal: AbortSignal }): Promise<readonly string[]>
  /**
   * The roots of other trust domains that the workloads are to trust, if the CA lists any: by trust domain, PEM, one
   * certificate per element. The map is complete: a trust domain that is missing is no longer trusted on the CA's
   * account. Called together with `trustBundle`, also after a change of `roots`.
   */
  federatedBundles?(options: { readonly signal: AbortSignal }): Promise<ReadonlyMap<string, readonly string[]>>
  /**
   * Whether the last list was incomplete: one of several CAs has not answered since the start, so its roots are
   * unknown. Then no root is given up. Default: `false`.
   */
  readonly isListPartial?: boolean
  /** Calls `listener` when something changed on the CA's side: new roots, new files. */
  subscribe?(listener: (change: CAChange) => void): Disposable
}

/** A request of the SecretManager to a CA. */
export interface CertificateRequest {
  /** The one identity that the certificate must carry, as its only URI SAN. */
  readonly identity: SpiffeId
  /** The DNS names that the certificate must carry beside it, as its CSR says: these and no others. Absent: none. */
  readonly dnsNames?: readonly string[]
  /** The wished lifetime in seconds; the certificate's own dates decide. */
  readonly ttlSeconds: number
  /** Path of this identity's own token file; absent: the plugin's. Read at each call, never kept. */
  readonly tokenFile?: string
  /** Aborted when nobody waits for the answer, or at the deadline. */
  readonly signal: AbortSignal
  /**
   * How long a network client waits for its connection, milliseconds, while the CA as a whole is down: it then finds a CA
   * that is back at once. Absent: it fails as soon as there is no connection.
   */
  readonly connectWithinMs?: number
  /**
   * The certificate in use until the new one comes: it lets a plugin with several CAs defer the next CA
   * ({@link CAError.deferred}). Absent if the identity needs one now: it has none, peers refuse it, or an operator wishes another.
   */
  readonly replaces?: {
    /** Milliseconds since the epoch. */
    readonly notAfter: number
    /** When the first of the failures in a row to replace it came, milliseconds since the epoch; absent unless the last attempt failed. */
    readonly failingSince?: number
  }
  /**
   * Makes the key and the CSR on the first call, and gives the same CSR on each later one. A CA that signs awaits it
   * and never sees the key; a source that brings its own key never calls it.
   */
  csr(): Promise<CertificateSigningRequest>
  /** Lets a plugin that waits for an approval note how to find the request again. Absent outside the SecretManager. */
  readonly ticket?: RequestTicket
}

/** A note that outlives one call: the next request of the identity has it again, with the same key and so the same CSR. */
export interface RequestTicket {
  /** The value that was stored last, by this process or, with a store, by the previous one. */
  readonly stored: string | undefined
  /** Stores `value` until a certificate is issued; `undefined` drops it: the next request gets a new key. */
  store(value: string | undefined): Promise<void>
}

/** A PKCS#10 request (RFC 2986), signed by the key it asks for. */
export interface CertificateSigningRequest {
  readonly der: Uint8Array
  /** The same as PEM (RFC 7468, label `CERTIFICATE REQUEST`), newline at the end. */
  readonly pem: string
}

/** A CA's answer. The SecretManager checks it: plugins need not. */
export interface IssuedCertificate {
  /** PEM, one certificate per element, leaf first, without the root. */
  readonly chain: readonly string[]
  /** The roots that came along (PEM, one certificate per element), if any did. */
  readonly roots?: readonly string[]
  /**
   * The scope of `roots`. `identity`: the source is not the trust domain's CA, such as a folder of this one
   * workload; the list is then complete, and no other identity trusts these roots. Default: the trust domain.
   */
  readonly rootsFor?: 'trust-domain' | 'identity'
  /**
   * PKCS#8, SEC1 or PKCS#1 PEM, only from a source that brings its own key. A copy for each answer: the caller owns
   * its bytes and wipes them, so a plugin that keeps the key hands out another buffer.
   */
  readonly privateKey?: Uint8Array
  /** The purpose of the identity in words of the CA's operator, such as `internal`: clients of the Workload API get it. At most 1,024 characters. */
  readonly hint?: string
  /**
   * Called once the answer has passed every check. Until then the plugin keeps nothing of it, its roots above all. An
   * exception is reported, and the certificate is served anyway.
   */
  readonly accepted?: () => void
}

/**
 * A change on the CA's side. `roots`: the trust anchors. `certificates`: the certificates of `identities`, which are
 * fetched at once; without `identities`, all certificates, spread out.
 */
export type CAChange =
  | { readonly kind: 'roots' }
  | { readonly kind: 'certificates'; readonly identities?: readonly SpiffeId[] }

export const CA_ERROR_CODES = [
  'unauthenticated',
  'denied',
  'invalid-csr',
  'ttl-too-long',
  'rate-limited',
  'unavailable',
  'timeout',
  'bad-response',
] as const

/** Stable codes of {@link CAError}: they will not change between major versions, messages will. */
export type CAErrorCode = (typeof CA_ERROR_CODES)[number]

const RETRYABLE: ReadonlySet<CAErrorCode> = new Set([
  'unauthenticated', // tokens rotate on disk, and are read at each call
  'rate-limited',
  'unavailable',
  'timeout',
  'bad-response',
])

/** Why a CA did not issue. `code` is the contract; the message says what, why and what to do, and carries no secret. */
export class CAError extends Error {
  override readonly name = 'CAError'
  readonly code: CAErrorCode
  /**
   * Whether the same request may succeed later. Other failures are retried too, at the longest backoff: configuration and
   * tokens get fixed.
   */
  readonly retryable: boolean
  /** Milliseconds that the CA asked to wait, if it did. */
  readonly retryAfterMs: number | undefined
  /** Whether the cause is on this node, such as a missing file of the identity: then it is no evidence about the CA. */
  readonly local: boolean
  /**
   * The plugin has another CA, and keeps it until this time (milliseconds since the epoch), since the certificate in use lasts
   * long enough: the request is repeated then at the latest. It is no evidence about the CA for other identities.
   */
  readonly deferred: number | undefined

  constructor(code: CAErrorCode, message: string, options: CAErrorOptions = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause })
    this.code = code
    this.retryable = options.retryable ?? RETRYABLE.has(code)
    this.retryAfterMs = options.retryAfterMs
    this.local = options.local ?? false
    this.deferred = options.deferred
  }
}

export interface CAErrorOptions {
  /** Default: depends on the code. */
  readonly retryable?: boolean
  readonly retryAfterMs?: number
  /** Default: `false`. */
  readonly local?: boolean
  readonly deferred?: number
  readonly cause?: unknown
}

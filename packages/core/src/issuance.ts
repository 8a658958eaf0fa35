/** One certificate from asking to checked: key, CSR, the CA's answer, all under one deadline. */
import { type CAClient, CAError, type CertificateSigningRequest, type IssuedCertificate } from './ca-client.ts'
import type { CertificateVerifier, Expectation, VerifiedChain } from './certificate-verifier.ts'
import type { Clock } from './clock.ts'
import type { GeneratedKey, KeyGenerator, KeyType, PrivateKeyFormat } from './key-generator.ts'
import { derToPem } from './pem.ts'
import { CertificateSecret } from './secret-item.ts'
import { type SpiffeId, trustDomainOf } from './spiffe-id.ts'
import type { TrustAnchor } from './trust-bundle.ts'
import type { TrustStore } from './trust-store.ts'
import { untilAborted } from './until-aborted.ts'

export interface IssuanceOptions {
  readonly ca: CAClient
  readonly keyGenerator: KeyGenerator
  readonly verifier: CertificateVerifier
  readonly clock: Clock
  readonly keyType: KeyType
  readonly keyFormat: PrivateKeyFormat
  readonly ttlSeconds: number
  readonly timeoutMs: number
}

export interface IssuanceRequest {
  readonly identity: SpiffeId
  readonly tokenFile?: string
  readonly trustStore: TrustStore
  readonly controller: AbortController
}

/** A checked certificate, which keeps its root in the bundle until it is released. */
export interface Issued {
  readonly secret: CertificateSecret
  readonly root: TrustAnchor
  /** Wipes the key and lets go of the root. */
  release(): void
}

/**
 * Asks the CA once. Rejects with a {@link CAError}, or with the signal's reason when aborted; then no key is left. A
 * plugin that throws something else, never answers or ignores its signal costs no more than the deadline.
 */
export async function issue(options: IssuanceOptions, request: IssuanceRequest): Promise<Issued> {
  const { signal } = request.controller
  using _deadline = options.clock.at(options.clock.now() + options.timeoutMs, () =>
    request.controller.abort(
      new CAError('timeout', `The CA did not answer for ${request.identity} within ${options.timeoutMs} ms`),
    ),
  )
  const key = new LazyKey(options, request.identity, signal)
  try {
    const answer = await untilAborted(
      options.ca.issue({
        identity: request.identity,
        ttlSeconds: options.ttlSeconds,
        ...(request.tokenFile === undefined ? {} : { tokenFile: request.tokenFile }),
        signal,
        csr: () => key.csr(),
      }),
      signal,
    )
    const privateKey = await key.privateKey(answer)
    const verified = await untilAborted(verify(options, request, answer, privateKey), signal)
    return toIssued(request, verified, privateKey.pem)
  } catch (error) {
    key.wipe()
    throw asCAError(error, signal, request.identity)
  }
}

async function verify(
  { verifier, clock }: IssuanceOptions,
  { identity, trustStore }: IssuanceRequest,
  answer: IssuedCertificate,
  { key }: PrivateKey,
): Promise<VerifiedChain> {
  const against = (anchors: readonly TrustAnchor[]) =>
    verifier.verify(answer.chain, { identity, key, anchors: anchors.map(a => a.certificate), now: clock.now() })
  const known = await trustStore.anchorsFor(identity, answer)
  try {
    return against(known)
  } catch (error) {
    // The CA may have changed its root since it was last asked for its list.
    await trustStore.refresh()
    const now = await trustStore.anchorsFor(identity, answer)
    if (now.length === known.length) throw error
    return against(now)
  }
}

function toIssued({ identity, trustStore }: IssuanceRequest, verified: VerifiedChain, privateKey: Uint8Array): Issued {
  const bundle = trustStore.bundle(trustDomainOf(identity))
  const root = bundle?.anchor(verified.rootFingerprint)
  if (!bundle || !root) throw new CAError('bad-response', `The root of ${identity} went away while it was issued`)
  const lease = bundle.lease(root.fingerprint, verified.notAfter)
  const secret = new CertificateSecret({
    identity,
    version: verified.version,
    // A buffer of its own: a slice of Node's pool would keep 8 kB alive for each identity.
    certificateChain: new TextEncoder().encode(verified.chainPem),
    privateKey,
    notBefore: verified.notBefore,
    notAfter: verified.notAfter,
    serialNumber: verified.serialNumber,
  })
  return {
    secret,
    root,
    release() {
      secret.wipe()
      lease[Symbol.dispose]()
      trustStore.schedulePrune(bundle.trustDomain)
    },
  }
}

/** A key with what the certificate's own key is compared to. */
interface PrivateKey {
  readonly pem: Uint8Array
  readonly key: Expectation['key']
}

/** The key and CSR of one request, made when a plugin first asks for the CSR. */
class LazyKey {
  readonly #make: () => Promise<GeneratedKey>
  #pending: Promise<GeneratedKey> | undefined

  constructor({ keyGenerator, keyType, keyFormat }: IssuanceOptions, identity: SpiffeId, signal: AbortSignal) {
    this.#make = () => keyGenerator.generate({ type: keyType, identity, format: keyFormat }, { signal })
  }

  async csr(): Promise<CertificateSigningRequest> {
    this.#pending ??= this.#make()
    const { csrDer } = await this.#pending
    return { der: csrDer, pem: derToPem(csrDer, 'CERTIFICATE REQUEST') }
  }

  /** The answer's own key, or the one that was generated for it. */
  async privateKey({ privateKey }: IssuedCertificate): Promise<PrivateKey> {
    if (privateKey) return { pem: privateKey, key: { privateKeyPem: privateKey } }
    const generated = await this.#pending
    if (!generated)
      throw new CAError('bad-response', 'The CA plugin answered without a key and without asking for the CSR')
    return { pem: generated.privateKeyPem, key: { publicKeyDer: generated.publicKeyDer } }
  }

  /** Wipes the key, also one that is still being made. */
  wipe(): void {
    this.#pending?.then(
      generated => generated.privateKeyPem.fill(0),
      () => {}, // whoever awaited the CSR has the error
    )
  }
}

/** A plugin may throw anything: what is no CAError becomes one that tells its text and nothing else. */
function asCAError(error: unknown, signal: AbortSignal, identity: SpiffeId): unknown {
  if (error instanceof CAError || (signal.aborted && error === signal.reason)) return error
  const text = error instanceof Error ? error.message : String(error)
  return new CAError('unavailable', `The CA plugin failed for ${identity}: ${text.slice(0, 500)}`, { cause: error })
}

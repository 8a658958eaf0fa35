/** Checks the answer of any CA, in one place: key, identity, dates, chain (design rule: Envoy is not a safety net). */
import { createHash, createPrivateKey, createPublicKey, type X509Certificate } from 'node:crypto'
import { CAError } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { type Certificate, readCertificate } from './certificate.ts'
import { findPath, keyKindOf, servesTls } from './chain-path.ts'
import { derToPem, pemToDer } from './pem.ts'

/** Envoy accepts a 6 MB chain and then breaks every handshake: chains beyond these are refused. */
const MAX_CHAIN_CERTIFICATES = 10
const MAX_CHAIN_BYTES = 65_536
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

/** A verifier that judges the facts from `read`, and those from `readLater`. */
export function createCertificateVerifier(
  read: ReadChain,
  readLater?: ReadChainLater,
  readsRoot?: (root: X509Certificate) => boolean,
): CertificateVerifier {
  return {
    ...(readsRoot && { readsRoot }),
    verify: (chain, expected) => judge(read(decodeChain(chain), expected), expected),
    ...(readLater && {
      async verifyLater(chain, expected) {
        return judge(await readLater(decodeChain(chain), expected), expected)
      },
    }),
  }
}

/** The judgement itself, over facts that were read. */
export function judge(facts: ReturnType<ReadChain>, expected: Expectation): VerifiedChain {
  if ('unreadable' in facts) throw notACertificate(facts.unreadable, facts.cause)
  checkIdentity(facts, expected.identity)
  if (expected.dnsNames) checkNames(facts, expected.dnsNames)
  checkKey(facts, expected.key)
  checkDates(facts, expected.now)
  checkUsage(facts)
  const { path } = facts
  if ('refused' in path) throw noPath(path.refused, expected.anchors.length)
  return { ...path, serialNumber: facts.serialNumber.toLowerCase() }
}

/** The verifier on node:crypto, for machines without the addon: it judges paths less strictly (`chain-path.ts`). */
export const nodeCertificateVerifier: CertificateVerifier = createCertificateVerifier(readWithNode)

const PREAMBLE = "The CA's answer cannot be used and replaces nothing: "

function bad(reason: string, cause?: unknown): CAError {
  return new CAError('bad-response', `${PREAMBLE}${reason}`, { cause })
}

/** The fault that a verifier has thrown, for a chain that is not a CA's answer. */
export function faultOf({ message }: CAError): string {
  return message.startsWith(PREAMBLE) ? message.slice(PREAMBLE.length) : message
}

function notACertificate(index: number, cause: unknown): CAError {
  return bad(
    `element ${index} of the chain is not a PEM certificate that can be relied on: it is malformed, or one of its extensions is`,
    cause,
  )
}

function noPath(refused: string | undefined, anchors: number): CAError {
  const reason = `its chain does not lead to ${anchors === 1 ? 'the one known root' : `any of the ${anchors} known roots`}`
  return bad(`${reason}: ${refused ?? "compare the CA's root with the agent's"}`)
}

function decodeChain(chain: readonly string[]): Buffer[] {
  if (chain.length === 0) throw bad('the chain is empty')
  if (chain.length > MAX_CHAIN_CERTIFICATES) {
    throw bad(`the chain has ${chain.length} certificates, more than ${MAX_CHAIN_CERTIFICATES}`)
  }
  const length = chain.reduce((sum, pem) => sum + pem.length, 0)
  if (length > MAX_CHAIN_BYTES) throw bad(`the chain is longer than ${MAX_CHAIN_BYTES} bytes`)
  return chain.map((pem, index) => {
    try {
      return pemToDer(pem)
    } catch (cause) {
      throw notACertificate(index, cause)
    }
  })
}

/** X509-SVID section 2: exactly one URI SAN. */
function checkIdentity({ uris, isCa }: ChainFacts, identity: SpiffeId): void {
  if (!uris) throw bad('its subject alternative names hold characters that no SPIFFE ID has')
  const [uri] = uris
  if (isCa && uri !== identity) throw bad('its first certificate is one of a CA: the leaf has to come first')
  if (uri === undefined || uris.length !== 1) {
    throw bad(`it carries ${uris.length} URI names instead of the one "${identity}"`)
  }
  if (uri !== identity) {
    throw bad(
      `it carries URI:${uri.slice(0, 300)} instead of the identity asked for, ${identity}: the CA signed the identity of the caller. With citadel, set ca.impersonate: true; where it is set, let the CA allow this token to impersonate`,
    )
  }
}

/** Extra names would let a workload pass for another host; with a missing name, its clients refuse it. */
function checkNames({ dnsNames, otherNames }: ChainFacts, wanted: readonly string[]): void {
  // DNS folds ASCII alone: toLowerCase makes a k of the Kelvin sign.
  const found = new Set(dnsNames.map(name => name.replace(/[A-Z]+/g, capitals => capitals.toLowerCase())))
  const missing = wanted.find(name => !found.has(name))
  if (missing !== undefined)
    throw bad(`it lacks the DNS name ${missing} that was asked for: have the CA allow it, or remove it from dnsNames`)
  const extra = [...found].find(name => !wanted.includes(name))
  const remedy = 'have the CA take names from the request alone'
  if (extra !== undefined)
    throw bad(`it carries DNS:${JSON.stringify(extra.slice(0, 300))}, which was not asked for: ${remedy}`)
  if (otherNames > 0) throw bad(`it carries ${otherNames} names that are neither URI nor DNS names: ${remedy}`)
}

function checkKey({ keyMatches }: ChainFacts, key: Expectation['key']): void {
  if (keyMatches) return
  if ('publicKeyDer' in key) throw bad('it is for another key than the one in the request')
  if (keyMatches === undefined) throw bad('the private key that came with it does not parse')
  throw bad('the private key that came with it belongs to another certificate')
}

function checkDates({ notBefore, notAfter }: ChainFacts, now: number): void {
  const wrong = (reason: string) =>
    bad(`${reason} (now ${iso(now)}, notBefore ${iso(notBefore)}, notAfter ${iso(notAfter)})`)
  if (!(notBefore < notAfter)) throw wrong('it ends before it begins')
  if (notAfter <= now) throw wrong('it has expired: check the clocks')
  if (notBefore > now + MAX_CLOCK_SKEW_MS)
    throw wrong('it is valid only more than 5 minutes from now: check the clocks')
}

function iso(time: number): string {
  return Number.isFinite(time) ? new Date(time).toISOString() : 'unreadable'
}

function checkUsage({ isCa, servesTls, signsHandshakes, claimsToCertify, hasTlsKey }: ChainFacts): void {
  if (isCa) throw bad('it is a CA certificate (X509-SVID section 4.1)')
  if (claimsToCertify) throw bad('its key usage has keyCertSign or cRLSign, which no leaf has (X509-SVID section 4.3)')
  if (!signsHandshakes) {
    throw bad('its key usage lacks digitalSignature, without which no TLS handshake succeeds (X509-SVID section 4.3)')
  }
  if (!hasTlsKey) {
    throw bad(
      'its key is not one that every TLS peer takes: RSA of 2048 to 8192 bits with an exponent up to 65537, P-256, P-384 or P-521',
    )
  }
  if (!servesTls) {
    throw bad('its extended key usage lacks server or client authentication (X509-SVID section 4.4)')
  }
}

function readWithNode(chain: readonly Buffer[], expected: Expectation): ReturnType<ReadChain> {
  const certificates: Certificate[] = []
  const unread: { readonly unreadable: number; readonly cause: unknown }[] = []
  for (const [index, der] of chain.entries()) {
    try {
      certificates.push(readCertificate(der))
    } catch (cause) {
      if (index === 0) return { unreadable: 0, cause }
      unread.push({ unreadable: index, cause })
    }
  }
  const [leaf] = certificates
  if (!leaf) return { unreadable: 0 }
  const { names, isCa, keyUsage, notBefore, notAfter } = leaf
  const path = pathOf(certificates, expected)
  const [unreadable] = unread
  if (unreadable && 'refused' in path && path.refused === undefined) return unreadable
  return {
    ...names,
    keyMatches: compareKey(leaf.publicKey, expected.key),
    notBefore,
    notAfter,
    isCa,
    servesTls: servesTls(leaf),
    signsHandshakes: keyUsage?.digitalSignature ?? true,
    claimsToCertify: keyUsage !== undefined && (keyUsage.keyCertSign || keyUsage.cRLSign),
    hasTlsKey: ['rsa', 'ec'].includes(keyKindOf(leaf) ?? ''),
    serialNumber: leaf.x509.serialNumber,
    path,
  }
}

function compareKey(publicKey: Buffer, key: Expectation['key']): boolean | undefined {
  if ('publicKeyDer' in key) return publicKey.equals(key.publicKeyDer)
  try {
    const privateKey = createPrivateKey({ key: Buffer.from(key.privateKeyPem), format: 'pem' })
    return publicKey.equals(createPublicKey(privateKey).export({ type: 'spki', format: 'der' }))
  } catch {
    // The cause could quote the key.
    return undefined
  }
}

function pathOf(chain: readonly Certificate[], { anchors, now }: Expectation): ChainFacts['path'] {
  const found = findPath(chain, anchors.map(readAnchor), { now, latestNotBefore: now + MAX_CLOCK_SKEW_MS })
  const root = 'refused' in found ? undefined : anchors[found.anchor]
  if ('refused' in found || !root) return 'refused' in found ? found : { refused: undefined }
  const version = createHash('sha256')
  for (const { der } of found.certificates) version.update(der)
  return {
    chainPem: found.certificates.map(({ der }) => derToPem(der, 'CERTIFICATE')).join(''),
    version: version.digest('hex'),
    rootFingerprint: createHash('sha256').update(root.raw).digest('hex'),
    notBefore: found.notBefore,
    notAfter: found.notAfter,
  }
}

const readAnchors = new WeakMap<X509Certificate, { readonly certificate: Certificate | undefined }>()

/** Reads each root once; one that cannot be read leads nowhere. */
function readAnchor(x509: X509Certificate): Certificate | undefined {
  const known = readAnchors.get(x509)
  if (known) return known.certificate
  let certificate: Certificate | undefined
  try {
    certificate = readCertificate(x509.raw, x509)
  } catch {} // its form is not DER
  readAnchors.set(x509, { certificate })
  return certificate
}

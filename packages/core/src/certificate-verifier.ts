/** The check of what a CA answered, done once for every CA: key, identity, dates, chain (design rule: Envoy is no safety net). */
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto'
import { readBasicConstraints } from './basic-constraints.ts'
import { CAError } from './ca-client.ts'
import { pemToDer } from './pem.ts'
import type { SpiffeId } from './spiffe-id.ts'

/** Envoy accepts a 6 MB chain and then breaks every handshake: chains beyond these are refused. */
const MAX_CHAIN_CERTIFICATES = 10
const MAX_CHAIN_BYTES = 65_536
/** How far ahead of our clock a CA's notBefore may be; until then the certificate is held. */
export const MAX_CLOCK_SKEW_MS = 5 * 60_000

const SERVER_AUTH = '1.3.6.1.5.5.7.3.1'
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'

/** What a CA's answer has to fit. */
export interface Expectation {
  readonly identity: SpiffeId
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
  readonly notBefore: number
  readonly notAfter: number
}

/** Checks a CA's answer, leaf first; throws a {@link CAError} `bad-response` that names the fault. */
export interface CertificateVerifier {
  verify(chain: readonly string[], expected: Expectation): VerifiedChain
}

/** What is read of a chain before it is judged; `createCertificateVerifier` judges alike whoever reads. */
export interface ChainFacts {
  /** The leaf's URI names; `undefined` if a name of any kind holds characters that could be taken for another name. */
  readonly uris: readonly string[] | undefined
  /** Whether the leaf's key is the one expected; `undefined` if a private key to compare with cannot be read. */
  readonly keyMatches: boolean | undefined
  /** Milliseconds since the epoch; NaN if unreadable. */
  readonly notBefore: number
  readonly notAfter: number
  readonly isCa: boolean
  /** Whether an extended key usage, if there is one, names both server and client authentication. */
  readonly servesTls: boolean
  readonly serialNumber: string
  /**
   * The way from the leaf to one of the anchors, in whatever order the intermediates came; the shortest, without those
   * that are not on it. Each issuer is a CA, valid (with skew) at `now`, and its signature and path length fit.
   */
  path(): ChainPath | undefined
}

export type ChainPath = Pick<VerifiedChain, 'chainPem' | 'version' | 'rootFingerprint'>

/** Reads a chain (DER, leaf first, never empty), or tells which element is no certificate. Does not throw. */
export type ReadChain = (
  chain: readonly Buffer[],
  expected: Expectation,
) => ChainFacts | { readonly unreadable: number; readonly cause?: unknown }

/** A verifier that judges what `read` tells. */
export function createCertificateVerifier(read: ReadChain): CertificateVerifier {
  return {
    verify(chain, expected) {
      const facts = read(decodeChain(chain), expected)
      if ('unreadable' in facts) throw notACertificate(facts.unreadable, facts.cause)
      checkIdentity(facts, expected.identity)
      checkKey(facts, expected.key)
      checkDates(facts, expected.now)
      checkUsage(facts)
      const path = facts.path()
      if (!path) {
        throw bad(
          `its chain does not lead to any of the ${expected.anchors.length} known roots: compare the CA's root with the agent's`,
        )
      }
      const { serialNumber, notBefore, notAfter } = facts
      return { ...path, serialNumber: serialNumber.toLowerCase(), notBefore, notAfter }
    },
  }
}

/** The verifier on node:crypto. */
export const nodeCertificateVerifier: CertificateVerifier = createCertificateVerifier(readWithNode)

function bad(reason: string, cause?: unknown): CAError {
  return new CAError('bad-response', `The CA's answer cannot be used and replaces nothing: ${reason}`, {
    cause,
  })
}

function notACertificate(index: number, cause: unknown): CAError {
  return bad(`element ${index} of the chain is not a PEM certificate`, cause)
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

/** X509-SVID section 2: exactly one URI SAN. Other kinds of SAN may stand beside it. */
function checkIdentity({ uris, isCa }: ChainFacts, identity: SpiffeId): void {
  if (!uris) throw bad('its subject alternative names hold characters that no SPIFFE ID has')
  const [uri] = uris
  if (isCa && uri !== identity) throw bad('its first certificate is one of a CA: the leaf has to come first')
  if (uri === undefined || uris.length !== 1) {
    throw bad(`it carries ${uris.length} URI names instead of the one "${identity}"`)
  }
  if (uri !== identity) {
    throw bad(
      `it carries URI:${uri.slice(0, 300)} instead of the identity asked for, ${identity}: a CA takes it from the caller, so look at the token, and whether it may impersonate`,
    )
  }
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

function checkUsage({ isCa, servesTls }: ChainFacts): void {
  if (isCa) throw bad('it is a CA certificate (X509-SVID section 4.1)')
  if (!servesTls) {
    throw bad('its extended key usage lacks server or client authentication (X509-SVID section 4.4)')
  }
}

function readWithNode(chain: readonly Buffer[], expected: Expectation): ReturnType<ReadChain> {
  const certificates: X509Certificate[] = []
  for (const der of chain) {
    try {
      certificates.push(new X509Certificate(der))
    } catch (cause) {
      return { unreadable: certificates.length, cause }
    }
  }
  const [leaf, ...intermediates] = certificates
  if (!leaf) return { unreadable: 0 }
  const usages = leaf.keyUsage
  return {
    uris: readUris(leaf),
    keyMatches: compareKey(leaf, expected.key),
    notBefore: leaf.validFromDate.getTime(),
    notAfter: leaf.validToDate.getTime(),
    isCa: leaf.ca || isMarkedCa(leaf),
    servesTls: !usages || (usages.includes(SERVER_AUTH) && usages.includes(CLIENT_AUTH)),
    serialNumber: leaf.serialNumber,
    path: () => findPath(leaf, intermediates, expected),
  }
}

function readUris(leaf: X509Certificate): readonly string[] | undefined {
  const names = leaf.subjectAltName ?? ''
  // Node quotes a name that holds a separator; no SPIFFE ID needs that, so such a certificate is not read any further.
  if (names.includes('"')) return undefined
  const prefix = 'URI:'
  return names.split(', ').flatMap(name => (name.startsWith(prefix) ? [name.slice(prefix.length)] : []))
}

function compareKey(leaf: X509Certificate, key: Expectation['key']): boolean | undefined {
  if ('publicKeyDer' in key) {
    try {
      return leaf.publicKey.export({ type: 'spki', format: 'der' }).equals(key.publicKeyDer)
    } catch {
      return false // OpenSSL knows no such key
    }
  }
  try {
    return leaf.checkPrivateKey(createPrivateKey({ key: Buffer.from(key.privateKeyPem), format: 'pem' }))
  } catch {
    // The cause could quote the key.
    return undefined
  }
}

/** `ca` is false also where the key usage alone forbids signing: marked as a CA it is no leaf all the same. */
function isMarkedCa(leaf: X509Certificate): boolean {
  try {
    return readBasicConstraints(leaf.raw).ca
  } catch {
    return true
  }
}

/** Breadth first, each certificate once: the shortest path, whatever the order, and no dead end taken for the end. */
function findPath(
  leaf: X509Certificate,
  intermediates: readonly X509Certificate[],
  { anchors, now }: Expectation,
): ChainPath | undefined {
  const unused = new Set(intermediates)
  const paths: (readonly X509Certificate[])[] = [[leaf]]
  for (const path of paths) {
    const root = anchors.find(anchor => isIssuer(anchor, path, now))
    if (root) return toChainPath(path, root)
    for (const candidate of unused) {
      if (!isIssuer(candidate, path, now)) continue
      unused.delete(candidate)
      paths.push([...path, candidate])
    }
  }
  return undefined
}

function toChainPath(chain: readonly X509Certificate[], root: X509Certificate): ChainPath {
  const version = createHash('sha256')
  for (const certificate of chain) version.update(certificate.raw)
  return {
    chainPem: chain.map(certificate => certificate.toString()).join(''),
    version: version.digest('hex'),
    rootFingerprint: createHash('sha256').update(root.raw).digest('hex'),
  }
}

function isIssuer(issuer: X509Certificate, path: readonly X509Certificate[], now: number): boolean {
  const subject = path.at(-1)
  if (!subject || !issuer.ca || !subject.checkIssued(issuer)) return false
  if (issuer.validFromDate.getTime() > now + MAX_CLOCK_SKEW_MS || !(issuer.validToDate.getTime() > now)) return false
  try {
    return allowsPath(issuer, path) && subject.verify(issuer.publicKey)
  } catch {
    return false // no DER, or a key that OpenSSL does not know
  }
}

/** RFC 5280 section 4.2.1.9: neither the leaf nor a self-issued intermediate counts. */
function allowsPath(issuer: X509Certificate, path: readonly X509Certificate[]): boolean {
  const { pathLength = Number.POSITIVE_INFINITY } = readBasicConstraints(issuer.raw)
  const intermediates = path.slice(1).filter(certificate => certificate.subject !== certificate.issuer)
  return intermediates.length <= pathLength
}

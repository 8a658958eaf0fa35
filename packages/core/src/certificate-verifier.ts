/** The check of what a CA answered, done once for every CA: key, identity, dates, chain (design rule: Envoy is no safety net). */
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto'
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

/** The verifier on node:crypto. */
export const nodeCertificateVerifier: CertificateVerifier = {
  verify(chain, expected) {
    const [leaf, ...intermediates] = parseChain(chain)
    if (!leaf) throw bad('the chain is empty')
    checkIdentity(leaf, expected.identity)
    checkKey(leaf, expected.key)
    checkDates(leaf, expected.now)
    checkUsage(leaf)
    const path = buildPath(leaf, intermediates, expected)
    const version = createHash('sha256')
    for (const certificate of path.chain) version.update(certificate.raw)
    return {
      chainPem: path.chain.map(certificate => certificate.toString()).join(''),
      version: version.digest('hex'),
      rootFingerprint: createHash('sha256').update(path.root.raw).digest('hex'),
      serialNumber: leaf.serialNumber,
      notBefore: leaf.validFromDate.getTime(),
      notAfter: leaf.validToDate.getTime(),
    }
  },
}

function bad(reason: string, cause?: unknown): CAError {
  return new CAError('bad-response', `The CA's answer cannot be used: ${reason}; the certificate in use stays`, {
    cause,
  })
}

function parseChain(chain: readonly string[]): X509Certificate[] {
  if (chain.length > MAX_CHAIN_CERTIFICATES) {
    throw bad(`the chain has ${chain.length} certificates, more than ${MAX_CHAIN_CERTIFICATES}`)
  }
  let bytes = 0
  return chain.map((pem, index) => {
    bytes += pem.length
    if (bytes > MAX_CHAIN_BYTES) throw bad(`the chain is longer than ${MAX_CHAIN_BYTES} bytes`)
    try {
      return new X509Certificate(pemToDer(pem))
    } catch (cause) {
      throw bad(`element ${index} of the chain is not a PEM certificate`, cause)
    }
  })
}

/** X509-SVID section 2: exactly one URI SAN. Other kinds of SAN may stand beside it. */
function checkIdentity(leaf: X509Certificate, identity: SpiffeId): void {
  const names = leaf.subjectAltName ?? ''
  // Node quotes a name that holds a separator; no SPIFFE ID needs that, so such a certificate is not read any further.
  if (names.includes('"')) throw bad('its subject alternative names hold characters that no SPIFFE ID has')
  const uris = names.split(', ').filter(name => name.startsWith('URI:'))
  if (uris.length !== 1) throw bad(`it carries ${uris.length} URI names instead of the one "${identity}"`)
  if (uris[0] !== `URI:${identity}`)
    throw bad(`it carries ${uris[0]?.slice(0, 300)} instead of the identity asked for, ${identity}`)
}

function checkKey(leaf: X509Certificate, key: Expectation['key']): void {
  if ('publicKeyDer' in key) {
    const publicKey = leaf.publicKey.export({ type: 'spki', format: 'der' })
    if (!publicKey.equals(key.publicKeyDer)) throw bad('it is for another key than the one in the request')
    return
  }
  let matches: boolean
  try {
    matches = leaf.checkPrivateKey(createPrivateKey({ key: Buffer.from(key.privateKeyPem), format: 'pem' }))
  } catch {
    // The cause could quote the key.
    throw bad('the private key that came with it does not parse')
  }
  if (!matches) throw bad('the private key that came with it belongs to another certificate')
}

function checkDates(leaf: X509Certificate, now: number): void {
  const notBefore = leaf.validFromDate.getTime()
  const notAfter = leaf.validToDate.getTime()
  const dates = `now ${iso(now)}, notBefore ${iso(notBefore)}, notAfter ${iso(notAfter)}`
  if (!(notBefore < notAfter)) throw bad(`it ends before it begins (${dates})`)
  if (notAfter <= now) throw bad(`it has expired: check the clocks (${dates})`)
  if (notBefore > now + MAX_CLOCK_SKEW_MS) {
    throw bad(`it is valid only more than 5 minutes from now: check the clocks (${dates})`)
  }
}

function iso(time: number): string {
  return Number.isFinite(time) ? new Date(time).toISOString() : 'unreadable'
}

function checkUsage(leaf: X509Certificate): void {
  if (leaf.ca) throw bad('it is a CA certificate (X509-SVID section 4.1)')
  const usages = leaf.keyUsage
  if (usages && !(usages.includes(SERVER_AUTH) && usages.includes(CLIENT_AUTH))) {
    throw bad('its extended key usage lacks server or client authentication (X509-SVID section 4.4)')
  }
}

/** From the leaf to an anchor, in whatever order the CA sent the intermediates; unrelated ones are left out. */
function buildPath(
  leaf: X509Certificate,
  intermediates: readonly X509Certificate[],
  { anchors, now }: Expectation,
): { readonly chain: readonly X509Certificate[]; readonly root: X509Certificate } {
  const chain = [leaf]
  const unused = new Set(intermediates)
  for (let last = leaf; ; ) {
    const root = anchors.find(anchor => issued(last, anchor, now))
    if (root) return { chain, root }
    const next = [...unused].find(candidate => candidate.ca && issued(last, candidate, now))
    if (!next) break
    unused.delete(next)
    chain.push(next)
    last = next
  }
  throw bad(
    `its chain does not lead to any of the ${anchors.length} known roots: compare the CA's root with the agent's`,
  )
}

function issued(subject: X509Certificate, issuer: X509Certificate, now: number): boolean {
  if (issuer.validFromDate.getTime() > now + MAX_CLOCK_SKEW_MS || issuer.validToDate.getTime() <= now) return false
  return subject.checkIssued(issuer) && subject.verify(issuer.publicKey)
}

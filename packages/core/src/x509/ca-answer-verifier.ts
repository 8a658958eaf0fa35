/** Checks the answer of any CA, in one place: key, identity, dates, chain (design rule: Envoy is not a safety net). */
import type { X509Certificate } from 'node:crypto'
import { CAError } from '../contract/ca-client.ts'
import {
  type CertificateVerifier,
  type ChainFacts,
  type Expectation,
  MAX_CLOCK_SKEW_MS,
  type ReadChain,
  type ReadChainLater,
  type VerifiedChain,
} from '../contract/certificate-verifier.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { pemToDer } from './pem.ts'

/** Envoy accepts a 6 MB chain and then breaks every handshake: chains beyond these are refused. */
const MAX_CHAIN_CERTIFICATES = 10
const MAX_CHAIN_BYTES = 65_536

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

/** The certificates in an answer of a CA, taken apart: which are the chain, and which the roots. */
import { X509Certificate } from 'node:crypto'
import { CAError, MAX_ROOTS, splitCertificates } from '@livery/core'

/** Well under what Envoy would take: it accepts chains of any length. */
const MAX_CERTIFICATES = 10
const MAX_ELEMENT_CHARACTERS = 65_536

/** An answer, for what is said where it cannot be used. */
export interface Answer {
  /** What was to be had by it: `a certificate for spiffe://…`. */
  readonly what: string
  /** What to do, without the period. */
  readonly remedy: string
}

export interface SplitChain {
  /** Leaf first. */
  readonly chain: readonly string[]
  /** Self-signed, wherever they stood. */
  readonly roots: readonly string[]
}

/**
 * Takes `elements` apart, PEM, the leaf first. The leaf is not looked at: core checks it. Throws a `CAError`
 * `bad-response` with `what` and the remedy.
 */
export function splitChain(elements: readonly string[], answer: Answer): SplitChain {
  const certificates = elementsOf(elements, answer)
  const [leaf, ...issuers] = certificates
  if (leaf === undefined) throw unusable(answer, 'has no certificate')
  if (certificates.length > MAX_CERTIFICATES)
    throw unusable(answer, `has ${certificates.length} certificates, more than ${MAX_CERTIFICATES}`)
  const roots = issuers.filter(pem => isSelfSigned(pem, answer))
  return { chain: [leaf, ...issuers.filter(pem => !roots.includes(pem))], roots: [...new Set(roots)] }
}

/** The self-signed ones, each once. Throws as {@link splitChain} does. */
export function selfSignedOf(elements: readonly string[], answer: Answer): readonly string[] {
  const roots = elementsOf(elements, answer).filter(pem => isSelfSigned(pem, answer))
  return [...new Map(roots.map(pem => [parse(pem, answer).fingerprint256, pem])).values()]
}

/** The last certificate of each of `chains`, each once. Throws as {@link splitChain} does. */
export function rootsOf(chains: readonly (readonly string[])[], answer: Answer): readonly string[] {
  if (chains.length > MAX_ROOTS) throw unusable(answer, `has ${chains.length} roots, more than ${MAX_ROOTS}`)
  const roots = new Map<string, string>()
  for (const elements of chains) {
    const root = elementsOf(elements, answer).at(-1)
    if (root === undefined) throw unusable(answer, 'has a CA without a certificate')
    roots.set(parse(root, answer).fingerprint256, root)
  }
  return [...roots.values()]
}

export function unusable({ what, remedy }: Answer, reason: string, cause?: unknown): CAError {
  return new CAError('bad-response', `Cannot get ${what}: its answer ${reason}. ${remedy}.`, { cause })
}

/** Parses nothing: that so many would hold up the event loop is known by their number. */
function elementsOf(elements: readonly string[], answer: Answer): readonly string[] {
  const all = elements.flatMap((element, index) => {
    if (element.length > MAX_ELEMENT_CHARACTERS)
      throw unusable(answer, `has an element of ${element.length} characters, more than ${MAX_ELEMENT_CHARACTERS}`)
    const certificates = splitCertificates(element)
    if (certificates.length === 0) throw unusable(answer, `has no PEM certificate in element ${index}`)
    return certificates
  })
  if (all.length <= MAX_CERTIFICATES + MAX_ROOTS) return all
  throw unusable(answer, `has ${all.length} certificates, more than ${MAX_CERTIFICATES} and ${MAX_ROOTS} roots`)
}

function isSelfSigned(pem: string, answer: Answer): boolean {
  const certificate = parse(pem, answer)
  return certificate.checkIssued(certificate)
}

function parse(pem: string, answer: Answer): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (error) {
    throw unusable(answer, 'has a certificate that cannot be parsed', error)
  }
}

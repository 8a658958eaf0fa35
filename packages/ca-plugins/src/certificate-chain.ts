/** The certificates in an answer of a CA, taken apart: which are the chain, and which the roots. */
import { X509Certificate } from 'node:crypto'
import { CAError, splitCertificates } from '@livery/core'

/** Well under what Envoy would take: it accepts chains of any length. */
const MAX_CERTIFICATES = 10
const MAX_ELEMENT_CHARACTERS = 65_536

export interface SplitChain {
  /** Leaf first. */
  readonly chain: readonly string[]
  /** Self-signed, wherever they stood. */
  readonly roots: readonly string[]
}

/**
 * Takes `elements` apart, PEM, the leaf first. The leaf is not looked at: core checks it. Throws a `CAError`
 * `bad-response` that begins with `what`.
 */
export function splitChain(elements: readonly string[], what: string): SplitChain {
  const certificates = elementsOf(elements, what)
  const [leaf, ...issuers] = certificates
  if (leaf === undefined) throw unusable(what, 'has no certificate')
  if (certificates.length > MAX_CERTIFICATES)
    throw unusable(what, `has ${certificates.length} certificates, more than ${MAX_CERTIFICATES}`)
  const roots = issuers.filter(pem => isSelfSigned(pem, what))
  return { chain: [leaf, ...issuers.filter(pem => !roots.includes(pem))], roots: [...new Set(roots)] }
}

/** The self-signed ones, each once. Throws as {@link splitChain} does. */
export function selfSignedOf(elements: readonly string[], what: string): readonly string[] {
  const roots = elementsOf(elements, what).filter(pem => isSelfSigned(pem, what))
  return [...new Map(roots.map(pem => [parse(pem, what).fingerprint256, pem])).values()]
}

/** The last certificate of each of `chains`, each once. Throws as {@link splitChain} does. */
export function rootsOf(chains: readonly (readonly string[])[], what: string): readonly string[] {
  const roots = new Map<string, string>()
  for (const elements of chains) {
    const root = elementsOf(elements, what).at(-1)
    if (root === undefined) throw unusable(what, 'has a CA without a certificate')
    roots.set(parse(root, what).fingerprint256, root)
  }
  return [...roots.values()]
}

export function unusable(what: string, reason: string, remedy = 'Check the endpoint', cause?: unknown): CAError {
  return new CAError('bad-response', `Cannot get ${what}: its answer ${reason}. ${remedy}.`, { cause })
}

function elementsOf(elements: readonly string[], what: string): readonly string[] {
  return elements.flatMap((element, index) => {
    if (element.length > MAX_ELEMENT_CHARACTERS)
      throw unusable(what, `has an element of ${element.length} characters, more than ${MAX_ELEMENT_CHARACTERS}`)
    const certificates = splitCertificates(element)
    if (certificates.length === 0) throw unusable(what, `has no PEM certificate in element ${index}`)
    return certificates
  })
}

function isSelfSigned(pem: string, what: string): boolean {
  const certificate = parse(pem, what)
  return certificate.checkIssued(certificate)
}

function parse(pem: string, what: string): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (error) {
    throw unusable(what, 'has a certificate that cannot be parsed', undefined, error)
  }
}

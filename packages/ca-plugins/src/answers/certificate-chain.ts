/** Splits the certificates of a CA's answer into the chain and the roots. */
import { X509Certificate } from 'node:crypto'
import { type CAError, MAX_ROOTS, splitCertificates } from '@livery/core/plugin'
import { caError } from './ca-error.ts'

/** Our own limit: Envoy accepts chains of any length. */
const MAX_CERTIFICATES = 10
const MAX_ELEMENT_CHARACTERS = 65_536
const MAX_KNOWN = 64

/** The origin of certificates, for the error if they cannot be used. */
export interface Answer {
  /** Follows "Cannot" in the message: `get a certificate for spiffe://… from …`. */
  readonly action: string
  /** The remedy; no period at the end. */
  readonly remedy: string
  /** The name of what holds the certificates. Default: `its answer`. */
  readonly source?: string
}

export interface SplitChain {
  /** PEM, one certificate per element, leaf first. */
  readonly chain: readonly string[]
  /** PEM, one certificate per element, each once. */
  readonly roots: readonly string[]
}

/** The certificates after the leaf in an answer: as received, and parsed. */
interface Issuers extends SplitChain {
  readonly elements: readonly string[]
}

/** Splits answers into chain and roots, and remembers the issuers: nearly every answer has the same ones. */
export class ChainReader {
  readonly #rootsLast: boolean
  readonly #selfSigned = new Map<string, boolean>()
  /** The issuers of the last answer whose first element held the leaf alone. */
  #lastIssuers: Issuers | undefined

  constructor(rootsLast = false) {
    this.#rootsLast = rootsLast
  }

  /**
   * Reads `elements`: PEM, the leaf first, each with one certificate or more. Self-signed certificates are roots,
   * wherever they are. The leaf is not parsed: core checks it, and parsing it twice would be a tenth of a cold start.
   * Throws a `CAError` `bad-response`.
   */
  read(elements: readonly string[], answer: Answer): SplitChain {
    if (elements.length > MAX_CERTIFICATES)
      throw badAnswer(answer, `has ${elements.length} elements, more than ${MAX_CERTIFICATES}`)
    return this.#readUnderLastIssuers(elements) ?? this.#readWhole(elements, answer)
  }

  /** Reads another leaf under the issuers of the last answer, which have passed every check here. */
  #readUnderLastIssuers(elements: readonly string[]): SplitChain | undefined {
    const last = this.#lastIssuers
    const [first = ''] = elements
    if (elements.length - 1 !== last?.elements.length || first.length > MAX_ELEMENT_CHARACTERS) return undefined
    if (!last.elements.every((element, index) => element === elements[index + 1])) return undefined
    const [leaf, ...more] = splitCertificates(first)
    return leaf === undefined || more.length > 0 ? undefined : { chain: [leaf, ...last.chain], roots: last.roots }
  }

  #readWhole(elements: readonly string[], answer: Answer): SplitChain {
    const split = splitElements(elements, answer)
    this.#checkCount(split, answer)
    const [leaf, ...issuers] = split.flat()
    if (leaf === undefined) throw badAnswer(answer, 'has no certificate')
    const selfSigned = issuers.filter(pem => this.#isSelfSigned(pem, answer))
    const last = this.#rootsLast ? (split.at(-1) ?? []) : []
    const roots = new Set(selfSigned.length > 0 ? selfSigned : last)
    const chain = [leaf, ...issuers.filter(pem => !roots.has(pem))]
    if (chain.length > MAX_CERTIFICATES)
      throw badAnswer(answer, `has a chain of ${chain.length} certificates, more than ${MAX_CERTIFICATES}`)
    const read = { chain, roots: [...roots] }
    if (split[0]?.length === 1)
      this.#lastIssuers = { elements: elements.slice(1), chain: chain.slice(1), roots: read.roots }
    return read
  }

  #checkCount(split: readonly (readonly string[])[], answer: Answer): void {
    const count = split.flat().length
    if (this.#rootsLast && split.length < 2)
      throw badAnswer(answer, `has ${split.length} elements, not a certificate and its root`)
    if (!this.#rootsLast && count > MAX_CERTIFICATES)
      throw badAnswer(answer, `has ${count} certificates, more than ${MAX_CERTIFICATES}`)
  }

  #isSelfSigned(pem: string, answer: Answer): boolean {
    const known = this.#selfSigned.get(pem)
    if (known !== undefined) return known
    const isSelfSigned = isIssuedByItself(parseCertificate(pem, answer))
    if (this.#selfSigned.size === MAX_KNOWN) this.#selfSigned.clear()
    this.#selfSigned.set(pem, isSelfSigned)
    return isSelfSigned
  }
}

/** The self-signed certificates in `elements`, each once. Throws a `CAError` `bad-response`. */
export function selfSignedIn(elements: readonly string[], answer: Answer): readonly string[] {
  const pems = splitElements(elements, answer).flat()
  return distinct(
    pems.filter(pem => isIssuedByItself(parseCertificate(pem, answer))),
    answer,
  )
}

/** The last certificate of each chain, each once. Throws a `CAError` `bad-response`. */
export function rootsOfChains(chains: readonly (readonly string[])[], answer: Answer): readonly string[] {
  if (chains.length > MAX_ROOTS) throw badAnswer(answer, `has ${chains.length} roots, more than ${MAX_ROOTS}`)
  const roots = chains.map(elements => {
    const root = splitElements(elements, answer).flat().at(-1)
    if (root === undefined) throw badAnswer(answer, 'has a CA without a certificate')
    return root
  })
  return distinct(roots, answer)
}

/** Every certificate in a bundle of roots, each once. Throws a `CAError` `bad-response` if there is none. */
export function rootsInBundle(pem: string, answer: Answer): readonly string[] {
  const all = splitCertificates(pem)
  if (all.length === 0) throw badAnswer(answer, 'has no certificate')
  if (all.length > MAX_ROOTS) throw badAnswer(answer, `has ${all.length} certificates, more than ${MAX_ROOTS}`)
  return distinct(all, answer)
}

/** `reason` follows the source of the answer: `has no certificate`. */
export function badAnswer({ action, remedy, source = 'its answer' }: Answer, reason: string, cause?: unknown): CAError {
  return caError('bad-response', { action, reason: `${source} ${reason}`, remedy, cause })
}

/** Counts without parsing: parsing too many certificates would block the event loop. */
function splitElements(elements: readonly string[], answer: Answer): readonly (readonly string[])[] {
  const split = elements.map((element, index) => {
    if (element.length > MAX_ELEMENT_CHARACTERS)
      throw badAnswer(answer, `has an element of ${element.length} characters, more than ${MAX_ELEMENT_CHARACTERS}`)
    const certificates = splitCertificates(element)
    if (certificates.length === 0) throw badAnswer(answer, `has no PEM certificate in element ${index}`)
    return certificates
  })
  const count = split.reduce((sum, certificates) => sum + certificates.length, 0)
  if (count <= MAX_CERTIFICATES + MAX_ROOTS) return split
  throw badAnswer(answer, `has ${count} certificates, more than ${MAX_CERTIFICATES} and ${MAX_ROOTS} roots`)
}

function distinct(pems: readonly string[], answer: Answer): readonly string[] {
  return [...new Map(pems.map(pem => [parseCertificate(pem, answer).fingerprint256, pem])).values()]
}

function isIssuedByItself(certificate: X509Certificate): boolean {
  return certificate.checkIssued(certificate)
}

function parseCertificate(pem: string, answer: Answer): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (error) {
    throw badAnswer(answer, 'has a certificate that cannot be parsed', error)
  }
}

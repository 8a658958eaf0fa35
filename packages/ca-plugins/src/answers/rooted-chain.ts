/** A chain with its root last, as Istio's CAs answer, taken apart: which certificates are the chain, and which the roots. */
import { X509Certificate } from 'node:crypto'
import { type IssuedCertificate, MAX_ROOTS, splitCertificates } from '@livery/core'

/** Well under what Envoy would take: it accepts chains of any length. */
const MAX_CERTIFICATES = 10
const MAX_ELEMENT_CHARACTERS = 65_536
const MAX_KNOWN = 64

/** Why an answer cannot be used. The message goes on after "its answer". */
export class UnusableAnswer extends Error {
  override readonly name = 'UnusableAnswer'
}

/** Takes chains apart, and remembers the issuers in them: they are the same in nearly every answer. */
export class RootedChainReader {
  readonly #known = new Map<string, Issuer>()

  /**
   * The chain, leaf first, and the roots of what the CA answered (PEM, in elements of one certificate or more); throws
   * {@link UnusableAnswer} if they are not there. Self-signed certificates are roots wherever they stand; if there is none, the last element is
   * taken for the roots, as Istio's agent does. The leaf is not looked at: core checks it, and parsing it twice would
   * be a tenth of a cold start.
   */
  read(answer: readonly string[]): IssuedCertificate {
    checkSize(answer)
    const elements = answer.map(splitElement)
    const count = elements.flat().length
    if (count > MAX_CERTIFICATES + MAX_ROOTS)
      throw new UnusableAnswer(`has ${count} certificates, more than ${MAX_CERTIFICATES} and ${MAX_ROOTS} roots`)
    const [first, ...others] = elements
    const leaf = first?.[0]
    if (first === undefined || leaf === undefined || others.length === 0)
      throw new UnusableAnswer(`has ${elements.length} elements, not a certificate and its root`)
    const issuers = [first.slice(1), ...others].flatMap((pems, index) => pems.map(pem => this.#issuer(pem, index)))
    const selfSigned = issuers.filter(issuer => issuer.isSelfSigned).map(issuer => issuer.pem)
    const roots = new Set(selfSigned.length > 0 ? selfSigned : others.at(-1))
    const chain = [leaf, ...issuers.map(issuer => issuer.pem).filter(pem => !roots.has(pem))]
    if (chain.length > MAX_CERTIFICATES)
      throw new UnusableAnswer(`has a chain of ${chain.length} certificates, more than ${MAX_CERTIFICATES}`)
    return { chain, roots: [...roots] }
  }

  #issuer(pem: string, index: number): Issuer {
    const known = this.#known.get(pem)
    if (known) return known
    const certificate = parseCertificate(pem, index)
    const issuer = { pem, isSelfSigned: certificate.checkIssued(certificate) }
    if (this.#known.size === MAX_KNOWN) this.#known.clear()
    this.#known.set(pem, issuer)
    return issuer
  }
}

interface Issuer {
  readonly pem: string
  readonly isSelfSigned: boolean
}

function checkSize(elements: readonly string[]): void {
  if (elements.length > MAX_CERTIFICATES)
    throw new UnusableAnswer(`has ${elements.length} elements, more than ${MAX_CERTIFICATES}`)
  const longest = Math.max(0, ...elements.map(element => element.length))
  if (longest > MAX_ELEMENT_CHARACTERS)
    throw new UnusableAnswer(`has an element of ${longest} characters, more than ${MAX_ELEMENT_CHARACTERS}`)
}

function splitElement(element: string, index: number): readonly string[] {
  const certificates = splitCertificates(element)
  if (certificates.length === 0) throw new UnusableAnswer(`has no PEM certificate in element ${index}`)
  return certificates
}

function parseCertificate(pem: string, index: number): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (error) {
    throw new UnusableAnswer(`has a certificate in element ${index} that cannot be parsed`, { cause: error })
  }
}

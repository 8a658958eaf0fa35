/** The answer of an Istio CA, taken apart: which certificates are the chain, and which the roots. */
import { X509Certificate } from 'node:crypto'
import { type IssuedCertificate, splitCertificates } from '@livery/core'
import { IstioCertificateResponse } from '../gen/istio/v1/auth/ca.ts'

/** Well under what Envoy would take: it accepts chains of any length. */
const MAX_CERTIFICATES = 10
const MAX_ELEMENT_CHARACTERS = 65_536

/** Why an answer cannot be used. The message goes on after "its answer". */
export class UnusableAnswer extends Error {
  override readonly name = 'UnusableAnswer'
}

/**
 * Splits a `IstioCertificateResponse` (bytes) into leaf first chain and roots; throws {@link UnusableAnswer} if there
 * are none. Self-signed certificates are roots wherever they stand; if there is none, the last element is taken for
 * the roots, as Istio's agent does.
 */
export function splitAnswer(bytes: Uint8Array): IssuedCertificate {
  const elements = decode(bytes).map(parseElement)
  const [[leaf] = [], last] = [elements[0], elements.at(-1)]
  if (!leaf || !last || elements.length < 2)
    throw new UnusableAnswer(`has ${elements.length} elements, not a certificate and its root`)
  if (leaf.isCa) throw new UnusableAnswer('begins with a CA certificate, not with that of the workload')
  const others = elements.flat().slice(1)
  const selfSigned = others.filter(certificate => certificate.isSelfSigned)
  const roots = selfSigned.length > 0 ? selfSigned : last
  const chain = [leaf, ...others.filter(certificate => !roots.includes(certificate))]
  if (chain.length > MAX_CERTIFICATES)
    throw new UnusableAnswer(`has a chain of ${chain.length} certificates, more than ${MAX_CERTIFICATES}`)
  return { chain: chain.map(({ pem }) => pem), roots: [...new Set(roots.map(({ pem }) => pem))] }
}

interface ParsedCertificate {
  readonly pem: string
  readonly isCa: boolean
  readonly isSelfSigned: boolean
}

function decode(bytes: Uint8Array): readonly string[] {
  let elements: readonly string[]
  try {
    elements = IstioCertificateResponse.decode(bytes).certChain
  } catch (error) {
    throw new UnusableAnswer('is no IstioCertificateResponse', { cause: error })
  }
  if (elements.length > MAX_CERTIFICATES)
    throw new UnusableAnswer(`has ${elements.length} elements, more than ${MAX_CERTIFICATES}`)
  const longest = Math.max(0, ...elements.map(element => element.length))
  if (longest > MAX_ELEMENT_CHARACTERS)
    throw new UnusableAnswer(`has an element of ${longest} characters, more than ${MAX_ELEMENT_CHARACTERS}`)
  return elements
}

function parseElement(element: string, index: number): readonly ParsedCertificate[] {
  const certificates = splitCertificates(element)
  if (certificates.length === 0) throw new UnusableAnswer(`has no PEM certificate in element ${index}`)
  return certificates.map(pem => parseCertificate(pem, index))
}

function parseCertificate(pem: string, index: number): ParsedCertificate {
  try {
    const certificate = new X509Certificate(pem)
    return { pem, isCa: certificate.ca, isSelfSigned: certificate.checkIssued(certificate) }
  } catch (error) {
    throw new UnusableAnswer(`has a certificate in element ${index} that cannot be parsed`, { cause: error })
  }
}

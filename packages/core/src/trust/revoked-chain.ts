/** Whether revocation lists name a certificate of a chain: by the issuer, which has signed the list, and the serial number. */

import type { Root } from '../contract/trust-anchor.ts'
import { scrub } from '../text/scrub.ts'
import { type Certificate, readCertificate } from '../x509/certificate.ts'
import { type Crl, withoutZeros } from '../x509/crl.ts'
import { pemToDer, splitCertificates } from '../x509/pem.ts'

/** Which certificate of its chain is revoked, and by whom; `undefined` if none is. */
export type LeafJudge = (serialNumber: string) => string | undefined

const MAX_NAME = 200
/** Characters of a serial number: old CAs wrote 21 bytes. */
const MAX_SERIAL = 42

/** Judges every leaf with the intermediates of `chainPem` (leaf first): its own certificate is not read. */
export function judgeOf(lists: readonly Crl[], chainPem: string, root: Root): LeafJudge {
  const [, ...intermediates] = splitCertificates(chainPem)
  const read = intermediates.map(readIntermediate)
  const readable = read.filter(intermediate => intermediate !== undefined)
  // Its lists cannot be checked against its key, so it is unknown which certificates they revoke.
  if (readable.length < read.length) return () => 'an intermediate that cannot be read, so that no list can be checked'
  const issuers = [...readable, issuerOf(root)]
  const [first] = issuers
  const ofLeaf = first ? lists.filter(list => covers(list, first)) : []
  const ofIntermediates = issuers.flatMap((issuer, index) => {
    const above = issuers[index + 1]
    const serialNumber = withoutZeros(issuer.serial.toString('hex'))
    const isNamed = above && lists.some(list => list.names(serialNumber) && covers(list, above))
    return isNamed ? [describe('the intermediate', serialNumber, above)] : []
  })
  return serialNumber => {
    const serial = withoutZeros(serialNumber)
    if (first && ofLeaf.some(list => list.names(serial))) return describe('the leaf', serial, first)
    return ofIntermediates[0]
  }
}

/** The addon reads some that node:crypto does not. */
function readIntermediate(pem: string): Certificate | undefined {
  try {
    return readCertificate(pemToDer(pem))
  } catch {
    return undefined
  }
}

export function issuerOf({ certificate }: Root): Certificate {
  return readCertificate(certificate.raw, certificate)
}

/** Whether a list in the name of its issuer has its serial number. */
export function isNamedBy(list: Crl, { issuer, serial }: Certificate): boolean {
  return list.issuer.equals(issuer) && list.names(withoutZeros(serial.toString('hex')))
}

/** Whether this issuer signed the list; the name alone may be a namesake's. */
export function covers(list: Crl, issuer: Certificate): boolean {
  const maySign = issuer.keyUsage?.cRLSign ?? true
  return maySign && list.issuer.equals(issuer.subject) && list.isSignedBy(issuer)
}

/** Whether it issued the certificate, perhaps its own; the name alone may be a namesake's. */
export function hasIssued(issuer: Certificate, certificate: Certificate): boolean {
  if (issuer === certificate) return true
  try {
    return certificate.x509.verify(issuer.x509.publicKey)
  } catch {
    // A key of another kind than the signature.
    return false
  }
}

function describe(what: string, serialNumber: string, { x509 }: Certificate): string {
  const issuer = scrub((x509.subject ?? '').replaceAll('\n', ', '), { maxLength: MAX_NAME })
  return `${what} with serial ${serialNumber.slice(0, MAX_SERIAL)} (list of ${issuer || 'an issuer without a name'})`
}

/** A certificate read for path validation (RFC 5280): byte by byte what counts, and node:crypto for its signature. */
import { X509Certificate } from 'node:crypto'
import { type Element, expectTag, INTEGER, notDer, readElements, readInside, SEQUENCE, SET } from './der.ts'
import { type Extensions, readExtensions } from './extensions.ts'

export interface Certificate {
  readonly x509: X509Certificate
  readonly der: Buffer
  /** Contents of the INTEGER. */
  readonly serial: Buffer
  /** AlgorithmIdentifier of the signature; `undefined` if the signed one is another. */
  readonly algorithm: Buffer | undefined
  /** Name, DER. Go compares names by the byte, so a CA that writes its name in two ways is two CAs. */
  readonly issuer: Buffer
  readonly subject: Buffer
  /** Of the subject, each as type and value. */
  readonly attributes: readonly (readonly Element[])[]
  /** SubjectPublicKeyInfo. */
  readonly publicKey: Buffer
  /** Milliseconds since the epoch. */
  readonly notBefore: number
  readonly notAfter: number
  /** Absent where one cannot be relied on: such a certificate is in no path. */
  readonly extensions: Extensions | undefined
}

/** Throws where OpenSSL cannot read it, or its parts are not DER. */
export function readCertificate(der: Buffer, x509 = new X509Certificate(der)): Certificate {
  const [signed, algorithm, signature, ...more] = readInside(der)
  if (!signature || more.length > 0) throw notDer('a certificate has three parts')
  const fields = readElements(expectTag(signed, SEQUENCE).contents)
  const version = fields[0]?.tag === VERSION ? fields[0] : undefined
  const [serial, signedAlgorithm, issuer, validity, subject, publicKey, ...rest] = fields.slice(version ? 1 : 0)
  const [notBefore, notAfter] = readElements(expectTag(validity, SEQUENCE).contents).map(readTime)
  if (notBefore === undefined || notAfter === undefined) throw notDer('a certificate has two dates')
  checkForm(version, expectTag(serial, INTEGER))
  const inner = expectTag(signedAlgorithm, SEQUENCE).der
  return {
    x509,
    der,
    serial: expectTag(serial, INTEGER).contents,
    algorithm: algorithm?.der.equals(inner) ? inner : undefined,
    issuer: expectTag(issuer, SEQUENCE).der,
    subject: expectTag(subject, SEQUENCE).der,
    attributes: readElements(expectTag(subject, SEQUENCE).contents).flatMap(part =>
      readElements(expectTag(part, SET).contents).map(attribute => readElements(attribute.contents)),
    ),
    publicKey: expectTag(publicKey, SEQUENCE).der,
    notBefore,
    notAfter,
    extensions: extensionsOf(version, expectTag(serial, INTEGER), rest),
  }
}

const VERSION = 0xa0
const EXTENSIONS = 0xa3
/** RFC 5280 allows 20, and CAs of old wrote one more. */
const MAX_SERIAL_BYTES = 21
const NO_EXTENSIONS = readExtensions([])

function checkForm(version: Element | undefined, serial: Element): void {
  const isKnown = !version || (version.contents.readUIntBE(0, 2) === 0x0201 && version.contents.readUInt8(2) <= 2)
  if (!isKnown || (version && version.contents.length !== 3)) throw notDer('a certificate has an unknown version')
  if (serial.contents.length > MAX_SERIAL_BYTES) throw notDer('a serial number is too long')
}

function extensionsOf(version: Element | undefined, serial: Element, rest: readonly Element[]): Extensions | undefined {
  try {
    // RFC 5280, section 4.1.2.2: a serial number is positive. Go cannot read one that is not.
    if (serial.contents.readInt8() < 0) return undefined
    const last = rest.at(-1)
    if (last?.tag !== EXTENSIONS) return NO_EXTENSIONS
    const isVersion3 = version?.contents.equals(Buffer.of(2, 1, 2))
    return isVersion3 ? readExtensions(readInside(last.contents)) : undefined
  } catch {
    return undefined
  }
}

const UTC_TIME = 0x17
const GENERALIZED_TIME = 0x18

/** RFC 5280, section 4.1.2.5: to the second, in UTC. */
export function readTime({ tag, contents }: Element): number {
  const text = contents.toString('latin1')
  const digits = tag === UTC_TIME ? `${text < '50' ? '20' : '19'}${text}` : text
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(digits)
  const isTime = tag === UTC_TIME || tag === GENERALIZED_TIME
  const time = parts && isTime ? Date.parse(`${parts.slice(1, 4).join('-')}T${parts.slice(4).join(':')}Z`) : Number.NaN
  if (Number.isNaN(time)) throw notDer('a date is not one')
  return time
}

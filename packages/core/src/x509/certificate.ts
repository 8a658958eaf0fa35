/** A certificate as node:crypto reads it, and what node:crypto does not tell: the bytes of its fields, its key usage, its URI names. */
import { X509Certificate } from 'node:crypto'
import {
  BIT_STRING,
  BOOLEAN,
  type Element,
  expectTag,
  INTEGER,
  notDer,
  OBJECT_IDENTIFIER,
  OCTET_STRING,
  readBits,
  readBoolean,
  readElements,
  readInside,
  SEQUENCE,
} from './der.ts'

export interface Certificate {
  readonly x509: X509Certificate
  readonly der: Buffer
  /** Contents of the INTEGER. */
  readonly serial: Buffer
  /** Name, DER. */
  readonly issuer: Buffer
  readonly subject: Buffer
  /** SubjectPublicKeyInfo. */
  readonly publicKey: Buffer
  /** Milliseconds since the epoch. */
  readonly notBefore: number
  readonly notAfter: number
  readonly isCa: boolean
  readonly keyUsage: KeyUsage | undefined
  readonly names: SubjectNames
}

/** Its subject alternative names. */
export interface SubjectNames {
  /** `undefined` if one has a character that no URI has. */
  readonly uris: readonly string[] | undefined
  readonly dnsNames: readonly string[]
  /** How many are of another kind. */
  readonly otherNames: number
}

export interface KeyUsage {
  readonly digitalSignature: boolean
  readonly keyCertSign: boolean
  readonly cRLSign: boolean
}

export interface CertificateDates {
  /** Milliseconds since the epoch. */
  readonly notBefore: number
  readonly notAfter: number
}

/** `undefined` unless both are dates, since OpenSSL parses any text as one: a deadline that is not a number would stop the clock for all others. */
export function datesOf({
  validFrom,
  validTo,
  validFromDate,
  validToDate,
}: X509Certificate): CertificateDates | undefined {
  if (Number.isNaN(Date.parse(validFrom)) || Number.isNaN(Date.parse(validTo))) return undefined
  return { notBefore: validFromDate.getTime(), notAfter: validToDate.getTime() }
}

/** Throws where OpenSSL cannot read it, or its parts are not DER. */
export function readCertificate(der: Buffer, x509 = new X509Certificate(der)): Certificate {
  const [signed, , signature, ...more] = readInside(der)
  if (!signature || more.length > 0) throw notDer('a certificate has three parts')
  const fields = readElements(expectTag(signed, SEQUENCE).contents)
  const [serial, , issuer, , subject, publicKey, ...rest] = fields.slice(fields[0]?.tag === VERSION ? 1 : 0)
  const dates = datesOf(x509)
  if (!dates) throw notDer('a certificate has two dates')
  const extensions = extensionsIn(rest)
  return {
    x509,
    der,
    serial: expectTag(serial, INTEGER).contents,
    issuer: expectTag(issuer, SEQUENCE).der,
    subject: expectTag(subject, SEQUENCE).der,
    publicKey: expectTag(publicKey, SEQUENCE).der,
    ...dates,
    isCa: readIsCa(extensions.get(BASIC_CONSTRAINTS)),
    keyUsage: readKeyUsage(extensions.get(KEY_USAGE)),
    names: readNames(extensions.get(NAMES)),
  }
}

const VERSION = 0xa0
const EXTENSIONS = 0xa3
/** Identifiers of extensions, hex. */
const KEY_USAGE = '551d0f'
const NAMES = '551d11'
const BASIC_CONSTRAINTS = '551d13'
const READ: ReadonlySet<string> = new Set([KEY_USAGE, NAMES, BASIC_CONSTRAINTS])
/** uniformResourceIdentifier (RFC 5280, section 4.2.1.6). */
const URI = 0x86
const DNS = 0x82
/** rfc822Name, dNSName, URI, iPAddress and registeredID in parts, which BER has and DER has not. */
const IN_PARTS: ReadonlySet<number> = new Set([0xa1, 0xa2, 0xa6, 0xa7, 0xa8])

/** The values of those that are read, by their identifiers. */
function extensionsIn(fields: readonly Element[]): ReadonlyMap<string, Buffer> {
  const last = fields.at(-1)
  const extensions = new Map<string, Buffer>()
  if (last?.tag !== EXTENSIONS) return extensions
  for (const element of readInside(last.contents)) {
    const parts = readElements(expectTag(element, SEQUENCE).contents)
    const id = expectTag(parts[0], OBJECT_IDENTIFIER).contents.toString('hex')
    if (!READ.has(id)) continue
    if (extensions.has(id)) throw notDer('an extension is repeated')
    extensions.set(id, expectTag(parts.at(-1), OCTET_STRING).contents)
  }
  return extensions
}

function readIsCa(value: Buffer | undefined): boolean {
  const [flag] = value ? readInside(value) : []
  return flag?.tag === BOOLEAN && readBoolean(flag)
}

function readKeyUsage(value: Buffer | undefined): KeyUsage | undefined {
  if (!value) return undefined
  const [bits, ...more] = readElements(value)
  if (more.length > 0) throw notDer('bytes follow the value')
  const first = readBits(expectTag(bits, BIT_STRING))[0] ?? 0
  return {
    digitalSignature: (first & 0x80) !== 0,
    keyCertSign: (first & 0x04) !== 0,
    cRLSign: (first & 0x02) !== 0,
  }
}

function readNames(value: Buffer | undefined): SubjectNames {
  const names = value ? readInside(value) : []
  if (names.some(({ tag }) => IN_PARTS.has(tag))) throw notDer('a name is in parts')
  const textsOf = (kind: number) =>
    names.flatMap(({ tag, contents }) => (tag === kind ? contents.toString('latin1') : []))
  const [uris, dnsNames] = [textsOf(URI), textsOf(DNS)]
  return {
    uris: uris.every(uri => /^[!-~]*$/.test(uri) && !uri.endsWith('\n')) ? uris : undefined,
    dnsNames,
    otherNames: names.length - uris.length - dnsNames.length,
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

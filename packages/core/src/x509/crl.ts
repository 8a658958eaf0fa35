/** Reads certificate revocation lists (RFC 5280, section 5): who issued one, until when it counts, and whether a key signed it. */

import { constants, type KeyObject, verify } from 'node:crypto'
import { type Certificate, readTime } from './certificate.ts'
import { expectTag, INTEGER, notDer, readBits, readElements, readExtent, readInside, SEQUENCE } from './der.ts'
import { pemToDer } from './pem.ts'

export interface Crl {
  /** Encoded again from what was read. */
  readonly pem: string
  /** Name, DER. */
  readonly issuer: Buffer
  /** The start of its validity, milliseconds since the epoch; a verifier refuses everybody before it. */
  readonly thisUpdate: number
  /** The latest time of the next list, milliseconds since the epoch; a verifier refuses everybody after it. */
  readonly nextUpdate: number | undefined
  /** The answer for each key is kept: a list can have a megabyte. */
  readonly isSignedBy: (issuer: Pick<Certificate, 'publicKey' | 'x509'>) => boolean
  /** Takes the serial number in lower-case hexadecimal, without leading zeros. */
  readonly names: (serialNumber: string) => boolean
}

const BLOCK = /-----BEGIN X509 CRL-----[^-]*-----END X509 CRL-----/g
/** Bounds the work: each list is compared with each root of its issuer's name, and a CA can list a hundred roots. */
const MAX_LISTS = 100
const BEGIN = '-----BEGIN X509 CRL-----'

/** All lists of a PEM text, at least one. Throws a `TypeError` if there is none, or one cannot be read: leaving it out would admit revoked certificates. */
export function readCrls(text: string): readonly Crl[] {
  const blocks = text.match(BLOCK) ?? []
  if (blocks.length === 0) throw new TypeError('it has no PEM block "X509 CRL"')
  if (blocks.length < text.split(BEGIN).length - 1) throw new TypeError('it ends within a list')
  if (blocks.length > MAX_LISTS)
    throw new TypeError(`it has ${blocks.length} lists, more than ${MAX_LISTS}: one of each CA is enough`)
  return blocks.map((block, index) => {
    try {
      return readCrl(pemToDer(block))
    } catch {
      throw new TypeError(`list ${index + 1} in it is not a CRL`)
    }
  })
}

function readCrl(der: Buffer): Crl {
  const [signed, algorithm, signature, ...more] = readInside(der)
  if (!signed || !algorithm || !signature || more.length > 0) throw notDer('a CRL has three parts')
  const fields = readElements(expectTag(signed, SEQUENCE).contents)
  const isVersion2 = fields[0]?.tag === INTEGER
  if (isVersion2 && fields[0]?.der.toString('hex') !== '020101') throw notDer('a CRL has an unknown version')
  const [inner, issuer, thisUpdate, ...optional] = fields.slice(isVersion2 ? 1 : 0)
  if (!thisUpdate) throw notDer('a CRL has a date')
  if (!expectTag(inner, SEQUENCE).der.equals(algorithm.der)) throw notDer('the signed algorithm is another one')
  const next = TIMES.has(optional[0]?.tag ?? 0) ? optional.shift() : undefined
  const nextUpdate = next && readTime(next)
  const entries = optional[0]?.tag === SEQUENCE ? optional.shift() : undefined
  const extensions = optional[0]?.tag === EXTENSIONS && isVersion2 ? optional.shift() : undefined
  if (extensions) checkExtensions(extensions.contents, 0, extensions.contents.length)
  if (optional.length > 0) throw notDer('something follows the last field')
  const isDelta = extensions?.contents.includes(DELTA_INDICATOR) ?? false
  const revoked = entries ? readEntries(entries.contents, { isVersion2, isDelta }) : new Set<string>()
  const scheme = schemeOf(algorithm.der)
  const bits = readBits(signature)
  const verdicts = new Map<string, boolean>()
  return {
    pem: crlToPem(der),
    issuer: expectTag(issuer, SEQUENCE).der,
    thisUpdate: readTime(thisUpdate),
    nextUpdate,
    isSignedBy({ publicKey, x509 }) {
      if (!scheme) return false
      const name = publicKey.toString('latin1')
      const verdict = verdicts.get(name) ?? isSigned(signed.der, bits, { ...scheme, key: x509.publicKey })
      verdicts.set(name, verdict)
      return verdict
    },
    names: serialNumber => revoked.has(serialNumber),
  }
}

function isSigned(
  text: Buffer,
  signature: Buffer,
  { hash, key, options }: Scheme & { readonly key: KeyObject },
): boolean {
  try {
    return verify(hash, text, { key, ...options }, signature)
  } catch {
    // A key of another kind than the algorithm.
    return false
  }
}

interface EntriesForm {
  readonly isVersion2: boolean
  /** The list holds changes since another list: its entries can take a revocation back. */
  readonly isDelta: boolean
}

/**
 * The serial numbers, hexadecimal. BoringSSL refuses a whole list, and the roots beside it, for one entry that it cannot
 * read.
 */
function readEntries(entries: Buffer, { isVersion2, isDelta }: EntriesForm): ReadonlySet<string> {
  const serialNumbers = new Set<string>()
  for (let offset = 0; offset < entries.length; ) {
    const entry = readExtent(entries, offset)
    const serial = readExtent(entries, entry.start)
    const date = readExtent(entries, serial.end)
    const isUsual = entry.tag === SEQUENCE && serial.tag === INTEGER && TIMES.has(date.tag)
    if (!isUsual || date.end > entry.end || (date.end < entry.end && !isVersion2))
      throw notDer('an entry has a wrong form')
    if (date.end < entry.end) checkExtensions(entries, date.end, entry.end)
    const isTakenBack = isDelta && entries.subarray(date.end, entry.end).includes(REMOVE_FROM_CRL)
    if (!isTakenBack) serialNumbers.add(withoutZeros(entries.toString('hex', serial.start, serial.end)))
    offset = entry.end
  }
  return serialNumbers
}

/** Turns a serial number from an INTEGER or a library into the form that `names` of a {@link Crl} takes. */
export function withoutZeros(hex: string): string {
  return hex.startsWith('0') ? hex.replace(/^0+/, '') : hex
}

/** RFC 5280: where there are extensions, there is at least one. */
function checkExtensions(der: Buffer, start: number, end: number): void {
  const extensions = readExtent(der, start)
  if (extensions.tag !== SEQUENCE || extensions.end !== end || extensions.start === end)
    throw notDer('a list of extensions is empty, or none')
  for (let offset = extensions.start; offset < end; ) {
    const extension = readExtent(der, offset)
    if (extension.tag !== SEQUENCE || extension.end > end) throw notDer('an extension has a wrong form')
    offset = extension.end
  }
}

/** The identifier of deltaCRLIndicator. */
const DELTA_INDICATOR = Buffer.from('0603551d1b', 'hex')
/** A reasonCode of removeFromCRL. */
const REMOVE_FROM_CRL = Buffer.from('0603551d1504030a0108', 'hex')
const EXTENSIONS = 0xa0
/** UTCTime and GeneralizedTime. */
const TIMES: ReadonlySet<number> = new Set([0x17, 0x18])

/** The hashes of RFC 5758 and RFC 4055 by the last byte of their identifiers. */
const ECDSA: ReadonlyMap<number, string> = new Map([
  [0x02, 'sha256'],
  [0x03, 'sha384'],
  [0x04, 'sha512'],
])
const RSA: ReadonlyMap<number, string> = new Map([
  [0x0b, 'sha256'],
  [0x0c, 'sha384'],
  [0x0d, 'sha512'],
])

interface Scheme {
  readonly hash: string | null
  readonly options: { readonly dsaEncoding?: 'der'; readonly padding?: number }
}

/** The scheme of an AlgorithmIdentifier; `undefined` if it is weak or unknown. */
function schemeOf(algorithm: Buffer): Scheme | undefined {
  const hex = algorithm.toString('hex')
  const ecdsa = /^300a06082a8648ce3d0403(..)$/.exec(hex)?.[1]
  if (ecdsa !== undefined) return withHash(ECDSA.get(Number.parseInt(ecdsa, 16)), { dsaEncoding: 'der' })
  const rsa = /^300[bd]06092a864886f70d0101(..)(?:0500)?$/.exec(hex)?.[1]
  if (rsa !== undefined) return withHash(RSA.get(Number.parseInt(rsa, 16)), { padding: constants.RSA_PKCS1_PADDING })
  return hex === '300506032b6570' ? { hash: null, options: {} } : undefined
}

function withHash(hash: string | undefined, options: Scheme['options']): Scheme | undefined {
  return hash === undefined ? undefined : { hash, options }
}

function crlToPem(der: Buffer): string {
  const base64 = der.toString('base64').replace(/.{64}(?!$)/g, '$&\n')
  return `${BEGIN}\n${base64}\n-----END X509 CRL-----\n`
}

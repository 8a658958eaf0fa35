/** Writes certificates for tests byte by byte, right or wrong: DER by hand, signed by node:crypto. */
import { constants, createPublicKey, type KeyObject, randomBytes, sign } from 'node:crypto'

/** One DER element: tag, length, contents. */
export function der(tag: number, ...contents: readonly (Uint8Array | string)[]): Buffer {
  const body = Buffer.concat(contents.map(part => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)))
  if (body.length < 0x80) return Buffer.concat([Buffer.of(tag, body.length), body])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length)
  const significant = length.subarray(length.findIndex(byte => byte !== 0))
  return Buffer.concat([Buffer.of(tag, 0x80 | significant.length), significant, body])
}

/** `depth` elements, each the only contents of the one before. */
export function nested(tag: number, depth: number): Buffer {
  const headers: Buffer[] = []
  for (let length = 0; headers.length < depth; length += headers.at(-1)?.length ?? 0) {
    headers.push(der(tag, Buffer.alloc(length)).subarray(0, length < 0x80 ? 2 : length < 0x100 ? 3 : 4))
  }
  return Buffer.concat(headers.reverse())
}

/** An element over 127 bytes with one byte of its length too many. */
export function paddedLength(element: Buffer): Buffer {
  const [tag = 0, first = 0] = element
  return Buffer.concat([Buffer.of(tag, first + 1, 0), element.subarray(2)])
}

export const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts)

/** An OBJECT IDENTIFIER from its dotted form. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second, ...rest].flatMap(arc => {
    const septets = [arc & 0x7f]
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128))
      septets.unshift(0x80 | (left & 0x7f))
    return septets
  })
  return der(0x06, Buffer.from(bytes))
}

/** A Name with a common name; the tag defaults to UTF8String's. */
export function name(commonName: string | Uint8Array, tag = 0x0c): Buffer {
  return sequence(der(0x31, sequence(oid('2.5.4.3'), der(tag, commonName))))
}

export const NO_NAME = sequence()

/** UTCTime up to 2049, then GeneralizedTime (RFC 5280 section 4.1.2.5). */
export function time(milliseconds: number): Buffer {
  const digits = new Date(milliseconds).toISOString().replaceAll(/[-:T]|\.\d+/g, '')
  return digits < '2050' ? der(0x17, digits.slice(2)) : der(0x18, digits)
}

export function extension(id: string, value: Uint8Array, { critical = false } = {}): Buffer {
  return sequence(oid(id), ...(critical ? [der(0x01, Buffer.of(0xff))] : []), der(0x04, value))
}

export const uri = (text: string) => der(0x86, text)
export const dns = (text: string) => der(0x82, text)
export const subjectAltName = (...names: readonly Buffer[]) =>
  extension('2.5.29.17', sequence(...names), { critical: true })
export const extendedKeyUsage = (...usages: readonly string[]) => extension('2.5.29.37', sequence(...usages.map(oid)))
export const SERVER_AUTH = '1.3.6.1.5.5.7.3.1'
export const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'
/** Bits as RFC 5280 section 4.2.1.3 numbers them, the first eight. */
export function keyUsage(...bits: readonly number[]): Buffer {
  const octet = bits.reduce((sum, bit) => sum | (0x80 >> bit), 0)
  return extension('2.5.29.15', der(0x03, Buffer.of(7 - Math.max(0, ...bits), octet)), { critical: true })
}

export function basicConstraints({ ca, pathLength }: { readonly ca: boolean; readonly pathLength?: number }): Buffer {
  const fields = [
    ...(ca ? [der(0x01, Buffer.of(0xff))] : []),
    ...(pathLength === undefined ? [] : [der(0x02, Buffer.of(pathLength))]),
  ]
  return extension('2.5.29.19', sequence(...fields), { critical: true })
}

/** How a key signs: the AlgorithmIdentifier, and what node:crypto needs to do so. */
export interface SignatureScheme {
  readonly algorithm: Buffer
  readonly hash: string | null
  readonly pss?: { readonly saltLength: number }
}

const NULL = der(0x05)
export const ECDSA_SHA256: SignatureScheme = { algorithm: sequence(oid('1.2.840.10045.4.3.2')), hash: 'sha256' }
export const ECDSA_SHA384: SignatureScheme = { algorithm: sequence(oid('1.2.840.10045.4.3.3')), hash: 'sha384' }
export const ECDSA_SHA512: SignatureScheme = { algorithm: sequence(oid('1.2.840.10045.4.3.4')), hash: 'sha512' }
export const RSA_SHA256: SignatureScheme = { algorithm: sequence(oid('1.2.840.113549.1.1.11'), NULL), hash: 'sha256' }
export const RSA_SHA1: SignatureScheme = { algorithm: sequence(oid('1.2.840.113549.1.1.5'), NULL), hash: 'sha1' }
export const ED25519: SignatureScheme = { algorithm: sequence(oid('1.3.101.112')), hash: null }

export function rsaPss(bits: 256 | 384 | 512, saltLength = bits / 8): SignatureScheme {
  const hash = sequence(oid(`2.16.840.1.101.3.4.2.${bits / 128 - 1}`), NULL)
  const parameters = sequence(
    der(0xa0, hash),
    der(0xa1, sequence(oid('1.2.840.113549.1.1.8'), hash)),
    der(0xa2, der(0x02, Buffer.of(saltLength))),
  )
  return { algorithm: sequence(oid('1.2.840.113549.1.1.10'), parameters), hash: `sha${bits}`, pss: { saltLength } }
}

export interface Signer {
  readonly subject: Buffer
  readonly key: KeyObject
  readonly scheme: SignatureScheme
}

/** The parts of a TBSCertificate, each as DER. */
export interface Parts {
  readonly version?: Buffer
  readonly serial?: Buffer
  readonly algorithm?: Buffer
  readonly issuer?: Buffer
  readonly validity: Buffer
  readonly subject: Buffer
  readonly publicKey: Buffer
  readonly extensions: readonly Buffer[]
}

export function tbsCertificate(parts: Parts, signer: Signer): Buffer {
  return sequence(
    parts.version ?? der(0xa0, der(0x02, Buffer.of(2))),
    parts.serial ?? der(0x02, Buffer.of(0x4a), randomBytes(15)),
    parts.algorithm ?? signer.scheme.algorithm,
    parts.issuer ?? signer.subject,
    parts.validity,
    parts.subject,
    parts.publicKey,
    ...(parts.extensions.length > 0 ? [der(0xa3, sequence(...parts.extensions))] : []),
  )
}

/** A certificate around whatever bytes are given as its signed part. */
export function signed(tbs: Buffer, { key, scheme }: Pick<Signer, 'key' | 'scheme'>): Buffer {
  const padding = scheme.pss && { padding: constants.RSA_PKCS1_PSS_PADDING, ...scheme.pss }
  return sequence(tbs, scheme.algorithm, der(0x03, Buffer.of(0), sign(scheme.hash, tbs, { key, ...padding })))
}

export function spki(privateKey: KeyObject): Buffer {
  return createPublicKey(privateKey).export({ type: 'spki', format: 'der' })
}

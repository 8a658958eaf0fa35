/** Keys and signatures that every TLS peer takes; SHA-1, SHA-224, MD5 and weak keys are not among them. */
import { type Element, expectTag, INTEGER, readBits, readInside, readUnsigned } from './der.ts'

/** node:crypto distinguishes the curves; here only the family counts. */
export type KeyKind = 'rsa' | 'ec' | 'ed25519'

/** AlgorithmIdentifiers of keys, hex: with the NULL (RFC 3279), the curve (RFC 5480), nothing (RFC 8410). */
const RSA = '300d06092a864886f70d0101010500'
const ED25519 = '300506032b6570'
/** Length of an uncompressed point. */
const CURVES: ReadonlyMap<string, number> = new Map([
  ['301306072a8648ce3d020106082a8648ce3d030107', 65],
  ['301006072a8648ce3d020106052b81040022', 97],
  ['301006072a8648ce3d020106052b81040023', 133],
])

/** `undefined` for a key that is weak, costly to verify with, of another kind, or not written as Go reads it. */
export function keyKindOf(publicKey: Buffer): KeyKind | undefined {
  try {
    return readKeyKind(readInside(publicKey))
  } catch {
    return undefined
  }
}

function readKeyKind([algorithm, key]: readonly Element[]): KeyKind | undefined {
  if (!algorithm || !key) return undefined
  const bits = readBits(key)
  if (key.contents[0] !== 0) return undefined
  const id = algorithm.der.toString('hex')
  if (id === RSA) return isRsaUsual(bits) ? 'rsa' : undefined
  if (id === ED25519) return bits.length === 32 ? 'ed25519' : undefined
  return CURVES.get(id) === bits.length && bits[0] === 4 ? 'ec' : undefined
}

/** RSAPublicKey (RFC 8017, appendix A.1.1). A larger exponent than 65537 makes a verification many times as long. */
function isRsaUsual(der: Buffer): boolean {
  const [modulus, exponent, ...more] = readInside(der)
  if (!exponent || more.length > 0) return false
  const bytes = expectTag(modulus, INTEGER).contents
  if (bytes.readUInt8() >= 0x80) return false
  const magnitude = bytes[0] === 0 ? bytes.subarray(1) : bytes
  const bits = magnitude.length * 8 - Math.clz32(magnitude.readUInt8()) + 24
  const e = readUnsigned(expectTag(exponent, INTEGER))
  return bits >= 2_048 && bits <= 8_192 && e >= 3 && e <= 65_537 && e % 2 === 1
}

/** AlgorithmIdentifiers of signatures, hex. RFC 5758 (ECDSA), 4055 (RSA), 8410 (Ed25519). */
const SIGNATURES: ReadonlyMap<string, KeyKind> = new Map([
  ...['2', '3', '4'].map(hash => [`300a06082a8648ce3d04030${hash}`, 'ec'] as const),
  ...['b', 'c', 'd'].flatMap(hash => [
    [`300d06092a864886f70d01010${hash}0500`, 'rsa'] as const,
    [`300b06092a864886f70d01010${hash}`, 'rsa'] as const,
  ]),
  ...([1, 2, 3] as const).map(hash => [rsaPss(hash), 'rsa'] as const),
  [ED25519, 'ed25519'],
])

/** The kind of key that makes signatures of this AlgorithmIdentifier; `undefined` if it is weak or unknown. */
export function signerKindOf(algorithm: Buffer): KeyKind | undefined {
  return SIGNATURES.get(algorithm.toString('hex'))
}

/** Only the usual parameters (RFC 4055, section 3.1): one hash for both uses, and a salt of its length. */
function rsaPss(hash: 1 | 2 | 3): string {
  const digest = `300d060960864801650304020${hash}0500`
  const salt = (16 * (hash + 1)).toString(16)
  return `304106092a864886f70d01010a3034a00f${digest}a11c301a06092a864886f70d010108${digest}a2030201${salt}`
}

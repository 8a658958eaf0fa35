/** The CSRs that the embedded CA accepts: PKCS#10 (RFC 2986), signed by a key that is strong enough. */
import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { promisify } from 'node:util'
import {
  type CAError,
  type DerElement,
  dnsNamesProblem,
  expectTag,
  readBits,
  readElements,
  readInside,
} from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'

/** A request with a 4096-bit key and a URI of 2,048 bytes has under 4 kB. */
const MAX_BYTES = 16_384
const MIN_RSA_BITS = 2048
/** Verifying costs with the square of the length: beyond this a caller could keep the CA busy. */
const MAX_RSA_BITS = 8192
/** FIPS 186-5, section 5.4 (e). An exponent of 1 lets anyone sign. */
const MIN_RSA_EXPONENT = 65_537n
/** The first byte of a point (SEC 1, section 2.3.3): RFC 5480 lets a CA refuse the other forms. */
const UNCOMPRESSED = 0x04

const INTEGER = 0x02
const BIT_STRING = 0x03
const OCTET_STRING = 0x04
const OBJECT_IDENTIFIER = 0x06
const SEQUENCE = 0x30
const SET = 0x31
const ATTRIBUTES = 0xa0
/** dNSName (RFC 5280, section 4.2.1.6). */
const DNS = 0x82
/** Identifiers, hex: extensionRequest (RFC 2985, section 5.4.2), and the subject alternative name. */
const EXTENSION_REQUEST = '2a864886f70d01090e'
const SUBJECT_ALT_NAME = '551d11'

type KeyKind = 'ec' | 'rsa'

/** AlgorithmIdentifiers of keys, hex: P-256 and P-384 (RFC 5480), and RSA with its NULL (RFC 3279). */
const KEYS: ReadonlyMap<string, KeyKind> = new Map([
  ['301306072a8648ce3d020106082a8648ce3d030107', 'ec'],
  ['301006072a8648ce3d020106052b81040022', 'ec'],
  ['300d06092a864886f70d0101010500', 'rsa'],
])

/** AlgorithmIdentifiers of signatures, hex, with their hash: RFC 5758 (ECDSA) and RFC 4055 (RSA). */
const SIGNATURES: Readonly<Record<KeyKind, ReadonlyMap<string, string>>> = {
  ec: new Map([
    ['300a06082a8648ce3d040302', 'sha256'],
    ['300a06082a8648ce3d040303', 'sha384'],
    ['300a06082a8648ce3d040304', 'sha512'],
  ]),
  rsa: new Map([
    ['300d06092a864886f70d01010b0500', 'sha256'],
    ['300d06092a864886f70d01010c0500', 'sha384'],
    ['300d06092a864886f70d01010d0500', 'sha512'],
  ]),
}

const verifyAsync = promisify(verify)

interface Request {
  /** The part that is signed. */
  readonly signed: Buffer
  /** SubjectPublicKeyInfo. */
  readonly publicKey: Buffer
  readonly dnsNames: readonly string[]
  /** The BIT STRING in it: an RSAPublicKey, or a point. */
  readonly keyBits: Buffer
  /** AlgorithmIdentifier of the key, hex, and of the signature. */
  readonly keyAlgorithm: string
  readonly algorithm: string
  readonly signature: Buffer
}

/** The parts of a CSR that are used: the key as SPKI (DER), and the DNS names that it asks for. */
export type VerifiedRequest = Pick<Request, 'publicKey' | 'dnsNames'>

/** Reads `csr` (DER), which the owner of its key must have signed. Rejects with a `CAError` `invalid-csr`. */
export async function verifiedRequest(csr: Uint8Array): Promise<VerifiedRequest> {
  if (csr.byteLength > MAX_BYTES) throw invalid(`it has ${csr.byteLength} bytes, more than ${MAX_BYTES}`)
  const request = parse(csr)
  const kind = KEYS.get(request.keyAlgorithm)
  if (kind === undefined) throw invalid('its key is neither RSA nor ECDSA on P-256 or P-384')
  if (kind === 'rsa') checkRsaKey(readKey(request.publicKey), request.publicKey)
  else if (request.keyBits[0] !== UNCOMPRESSED)
    throw invalid('its key is a point in compressed or hybrid form, not uncompressed')
  const hash = SIGNATURES[kind].get(request.algorithm)
  if (hash === undefined)
    throw invalid(
      'its signature algorithm is neither ECDSA nor RSA with a hash that this CA knows, or does not fit its key',
    )
  if (!(await isSigned(request, kind, hash))) {
    readKey(request.publicKey) // says so if the key is at fault
    throw invalid('its signature is not by the key that it holds')
  }
  const problem = dnsNamesProblem(request.dnsNames)
  if (problem !== undefined) throw invalid(`of its DNS names, ${problem}`)
  return request
}

/** Reads by hand: a thousand nodes may ask at once, and @peculiar/x509 takes as long as the rest of a certificate. */
function parse(csr: Uint8Array): Request {
  try {
    // Copied: the caller may change its bytes while the signature is verified.
    const [info, algorithm, signature, ...more] = readInside(Buffer.from(csr))
    const [version, subject, publicKey, attributes, ...rest] = readElements(expectTag(info, SEQUENCE).contents)
    if (more.length > 0 || rest.length > 0) throw new RangeError('a request has three parts')
    if (!expectTag(version, INTEGER).contents.equals(VERSION_1)) throw new RangeError('its version is unknown')
    for (const name of readElements(expectTag(subject, SEQUENCE).contents)) expectTag(name, SET)
    const asked = attributes ? readElements(expectTag(attributes, ATTRIBUTES).contents) : []
    const key = expectTag(publicKey, SEQUENCE).der
    const [keyAlgorithm, keyBits, ...others] = readInside(key)
    if (others.length > 0) throw new RangeError('a key has two parts')
    return {
      signed: expectTag(info, SEQUENCE).der,
      publicKey: key,
      dnsNames: asked.flatMap(dnsNamesIn),
      keyBits: wholeBytes(expectTag(keyBits, BIT_STRING)),
      keyAlgorithm: expectTag(keyAlgorithm, SEQUENCE).der.toString('hex'),
      algorithm: expectTag(algorithm, SEQUENCE).der.toString('hex'),
      signature: wholeBytes(expectTag(signature, BIT_STRING)),
    }
  } catch (error) {
    throw invalid('it is not a PKCS#10 request', error)
  }
}

const VERSION_1 = Buffer.of(0)

function wholeBytes(bits: DerElement): Buffer {
  if (bits.contents[0] !== 0) throw new RangeError('keys and signatures consist of whole bytes')
  return readBits(bits)
}

/** Other attributes are ignored: the CA decides on the identity. */
function dnsNamesIn(attribute: DerElement): readonly string[] {
  const [type, values, ...more] = readElements(expectTag(attribute, SEQUENCE).contents)
  const id = expectTag(type, OBJECT_IDENTIFIER).contents.toString('hex')
  const all = expectTag(values, SET).contents
  if (more.length > 0) throw new RangeError('an attribute has two parts')
  if (id !== EXTENSION_REQUEST) return []
  const extensions = readInside(all).map(extension => readElements(expectTag(extension, SEQUENCE).contents))
  const names = extensions.filter(
    ([kind]) => expectTag(kind, OBJECT_IDENTIFIER).contents.toString('hex') === SUBJECT_ALT_NAME,
  )
  return names
    .flatMap(extension => readInside(expectTag(extension.at(-1), OCTET_STRING).contents))
    .flatMap(({ tag, contents }) => (tag === DNS ? contents.toString('latin1').toLowerCase() : []))
}

function readKey(publicKey: Buffer): KeyObject {
  try {
    return createPublicKey({ key: publicKey, format: 'der', type: 'spki' })
  } catch (error) {
    throw invalid('its key cannot be read', error)
  }
}

function checkRsaKey(key: KeyObject, publicKey: Buffer): void {
  const { modulusLength: bits = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {}
  if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS)
    throw invalid(`its RSA key has ${bits} bits, not ${MIN_RSA_BITS} to ${MAX_RSA_BITS}`)
  if (publicExponent < MIN_RSA_EXPONENT || publicExponent % 2n === 0n)
    throw invalid(`the exponent of its RSA key is not an odd number from ${MIN_RSA_EXPONENT} on`)
  // OpenSSL accepts bytes after an RSA key; it knows the length of a point.
  if (!key.export({ type: 'spki', format: 'der' }).equals(publicKey))
    throw invalid('its key has another encoding than DER gives it')
}

/**
 * ECDSA takes less time than waking a thread for it; a long RSA key takes more. The key is passed as DER: a `KeyObject`
 * for a single use costs a tenth of the verification.
 */
async function isSigned({ signed, publicKey, signature }: Request, kind: KeyKind, hash: string): Promise<boolean> {
  const key = { key: publicKey, format: 'der', type: 'spki' } as const
  try {
    return kind === 'ec' ? verify(hash, signed, key, signature) : await verifyAsync(hash, signed, key, signature)
  } catch {
    return false
  }
}

function invalid(reason: string, cause?: unknown): CAError {
  return caError('invalid-csr', { action: 'sign the certificate request', reason, remedy: 'Send a new one', cause })
}

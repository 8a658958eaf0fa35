/** Reads the pushes of the Workload API: certificates and keys by identity, and roots by trust domain. */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { type KeyVault, plainKeyVault, SealedKey } from '@livery/core'
import {
  derToPem,
  isSpiffeId,
  MAX_ROOTS,
  MAX_ROOTS_LENGTH,
  type SpiffeId,
  trustDomainProblem,
} from '@livery/core/plugin'
import { type Answer, badAnswer } from '../../answers/certificate-chain.ts'
import { X509BundlesResponse, type X509SVID, X509SVIDResponse } from '../../gen/spiffe/workload/workload.ts'

/** Our own limit: Envoy accepts chains of any length. */
const MAX_CHAIN = 10
/** SPIRE's limit; a longer hint is left out. */
const MAX_HINT = 1_024
/** Certificates in one message: four for each identity. */
const MAX_CERTIFICATES = 20_000
/** The most identities of a push, and trust domains: a node has some hundred, and reading each takes 40 µs. */
const MAX_PARTS = 5_000
/** An identity has five, and the bundle of a trust domain two. */
const MAX_FIELDS = 16
/** The fields with the identities and the bundles: https://github.com/spiffe/spiffe/blob/main/standards/workloadapi.proto */
const SVIDS = 1
const BUNDLES = 2

/** The SVID of one identity. */
export interface Svid {
  /** DER, leaf first, no root: only requested ones become PEM. */
  readonly chain: readonly Buffer[]
  /** PKCS#8, DER. Wiped with its update. */
  readonly privateKey: SealedKey
  /** The roots of its trust domain, PEM. */
  readonly roots: readonly string[]
  /** Empty if the operator gave none. */
  readonly hint: string
}

export interface SvidUpdate {
  /** The server's order: the first is the default. */
  readonly svids: ReadonlyMap<SpiffeId, Svid>
}

/** Roots, PEM, by the name of the trust domain. */
export type Bundles = ReadonlyMap<string, readonly string[]>

/** `bytes` are an `X509SVIDResponse`, and are wiped, since they contain keys; `vault` keeps the keys. Throws a `CAError` `bad-response`. */
export function readSvidUpdate(bytes: Buffer, answer: Answer, vault: KeyVault = plainKeyVault): SvidUpdate {
  const svids = decodeAndWipe(bytes, answer)
  try {
    return { svids: readSvids(svids, answer, vault) }
  } catch (error) {
    for (const { x509SvidKey } of svids) x509SvidKey.fill(0)
    throw error
  }
}

function decodeAndWipe(bytes: Buffer, answer: Answer): readonly X509SVID[] {
  try {
    return decode(bytes, SVIDS, answer, X509SVIDResponse).svids
  } finally {
    bytes.fill(0)
  }
}

function readSvids(svids: readonly X509SVID[], answer: Answer, vault: KeyVault): SvidUpdate['svids'] {
  if (svids.length === 0) throw badAnswer(answer, 'has no identity')
  const certificates = new CertificateReader(answer)
  const bundles = new BundleReader(certificates)
  const read = new Map<SpiffeId, Svid>()
  for (const { spiffeId, x509Svid, x509SvidKey, bundle, hint } of svids) {
    if (!isSpiffeId(spiffeId)) throw badAnswer(answer, 'has an identity that is not a SPIFFE ID')
    // Several registrations may have the same identity and different hints: the first is the default.
    if (read.has(spiffeId)) {
      x509SvidKey.fill(0)
      continue
    }
    const roots = bundles.read(bundle, spiffeId)
    const all = certificates.read(x509Svid, `the certificate of ${spiffeId}`, {
      most: MAX_CHAIN + roots.der.length + 1,
    })
    const chain = all.filter(certificate => !roots.der.some(root => root.equals(certificate)))
    if (chain.length === 0 || chain.length > MAX_CHAIN)
      throw badAnswer(answer, `has ${chain.length} certificates for ${spiffeId}, not 1 to ${MAX_CHAIN}`)
    if (x509SvidKey.length === 0) throw badAnswer(answer, `has no key for ${spiffeId}`)
    read.set(spiffeId, {
      chain,
      privateKey: new SealedKey(vault, x509SvidKey),
      roots: roots.pem,
      hint: hint.length > MAX_HINT ? '' : hint,
    })
  }
  return read
}

/** `bytes` are an `X509BundlesResponse`. Throws a `CAError` `bad-response`. */
export function readBundles(bytes: Buffer, answer: Answer): Bundles {
  const { bundles } = decode(bytes, BUNDLES, answer, X509BundlesResponse)
  const certificates = new CertificateReader(answer)
  const read = new Map<string, readonly string[]>()
  for (const [id, bundle] of bundles) {
    const trustDomain = id.replace(/^spiffe:\/\//, '')
    if (trustDomainProblem(trustDomain) !== undefined)
      throw badAnswer(answer, 'has a bundle of a name that is not a trust domain')
    read.set(trustDomain, certificates.read(bundle, `the bundle of ${trustDomain}`, ROOTS).map(certificateToPem))
  }
  return read
}

/** Wipes the keys. */
export function wipe({ svids }: SvidUpdate): void {
  for (const { privateKey } of svids.values()) privateKey.wipe()
}

/** The same roots in both forms. */
interface Roots {
  readonly bytes: Buffer
  readonly der: readonly Buffer[]
  readonly pem: readonly string[]
}

/** A thousand identities have the same roots. */
class BundleReader {
  readonly #certificates: CertificateReader
  #last: Roots | undefined

  constructor(certificates: CertificateReader) {
    this.#certificates = certificates
  }

  read(bytes: Buffer, spiffeId: string): Roots {
    if (this.#last?.bytes.equals(bytes)) return this.#last
    const der = this.#certificates.read(bytes, `the bundle of ${spiffeId}`, ROOTS)
    this.#last = { bytes, der, pem: der.map(certificateToPem) }
    return this.#last
  }
}

export function certificateToPem(der: Buffer): string {
  return derToPem(der, 'CERTIFICATE')
}

function decode<T>(bytes: Buffer, part: number, answer: Answer, codec: { decode(bytes: Uint8Array): T }): T {
  let message: T | undefined
  try {
    if (isWithinBounds(bytes, part)) message = codec.decode(bytes)
  } catch (error) {
    throw badAnswer(answer, 'is not a message of the Workload API', error)
  }
  if (message !== undefined) return message
  throw badAnswer(answer, `has more than ${MAX_PARTS} parts, or one of many fields`)
}

const SEQUENCE = 0x30
/** Shorter than any certificate: a message of empty elements would become thirty times its size. */
const MIN_CERTIFICATE_BYTES = 100

interface ReadLimits {
  /** The most certificates that are read. */
  readonly most: number
  /** The most bytes, the certificate that exceeds them included. */
  readonly mostBytes?: number
}

/** One root more than core takes, so that core sees that the list is too long. */
const ROOTS: ReadLimits = { most: MAX_ROOTS + 1, mostBytes: MAX_ROOTS_LENGTH }

/** Reads the certificates of one message, and counts them. */
class CertificateReader {
  readonly #answer: Answer
  #count = 0

  constructor(answer: Answer) {
    this.#answer = answer
  }

  /** DER elements, one after the other. */
  read(bytes: Buffer, what: string, { most, mostBytes = bytes.length }: ReadLimits): readonly Buffer[] {
    const found: Buffer[] = []
    for (let at = 0; at < bytes.length && found.length < most && at <= mostBytes; ) {
      const end = at + lengthAt(bytes, at)
      if (bytes[at] !== SEQUENCE || !(end <= bytes.length))
        throw badAnswer(this.#answer, `has ${what} in bytes that are not DER`)
      if (end - at < MIN_CERTIFICATE_BYTES)
        throw badAnswer(this.#answer, `has ${what} with an element that is not a certificate`)
      if (++this.#count > MAX_CERTIFICATES)
        throw badAnswer(this.#answer, `has more than ${MAX_CERTIFICATES} certificates`)
      found.push(bytes.subarray(at, end))
      at = end
    }
    return found
  }
}

/** The length of the element at `at` with its header; `NaN` if it is longer than any certificate. */
function lengthAt(bytes: Buffer, at: number): number {
  const [, first = 0x80, second = 0, third = 0] = bytes.subarray(at, at + 4)
  if (first < 0x80) return 2 + first
  if (first === 0x81) return 3 + second
  return first === 0x82 ? 4 + (second << 8) + third : Number.NaN
}

/**
 * Whether the message and each of its fields with the number `part` have few fields: an empty field of two bytes becomes an
 * object of a hundred. Throws for bytes that are not a message.
 */
function isWithinBounds(bytes: Uint8Array, part: number): boolean {
  const reader = new BinaryReader(bytes)
  for (let count = 0; reader.pos < reader.len; count++) {
    const [number, type] = reader.tag()
    if (count === MAX_PARTS || type === WireType.StartGroup) return false
    if (number !== part || type !== WireType.LengthDelimited) reader.skip(type)
    else if (!hasFewFields(reader, reader.uint32())) return false
  }
  return true
}

function hasFewFields(reader: BinaryReader, length: number): boolean {
  const end = reader.pos + length
  for (let count = 0; reader.pos < end; count++) {
    const [, type] = reader.tag()
    if (count === MAX_FIELDS || type === WireType.StartGroup) return false
    reader.skip(type)
  }
  return true
}

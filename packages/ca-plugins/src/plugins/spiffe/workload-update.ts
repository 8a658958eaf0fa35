/** Reads the pushes of the Workload API: certificates and keys by identity, and roots by trust domain. */
import {
  derToPem,
  isSpiffeId,
  type KeyVault,
  plainKeyVault,
  SealedKey,
  type SpiffeId,
  trustDomainProblem,
} from '@livery/core'
import { type Answer, badAnswer } from '../../answers/certificate-chain.ts'
import { X509BundlesResponse, type X509SVID, X509SVIDResponse } from '../../gen/spiffe/workload/workload.ts'

/** Well under what Envoy would take: it accepts chains of any length. */
const MAX_CHAIN = 10
/** As in SPIRE; a longer one is left out. */
const MAX_HINT = 1_024

/** One identity's. */
export interface Svid {
  /** PEM, leaf first, no root. */
  readonly chain: readonly string[]
  /** PKCS#8, DER. Wiped with the update that it is in. */
  readonly privateKey: SealedKey
  /** Of its trust domain, PEM. */
  readonly roots: readonly string[]
  /** Empty where the operator gave none. */
  readonly hint: string
}

export interface SvidUpdate {
  /** In their order: the first is the default. */
  readonly svids: ReadonlyMap<SpiffeId, Svid>
}

/** Roots, PEM, by the name of the trust domain. */
export type Bundles = ReadonlyMap<string, readonly string[]>

/** `bytes` are an `X509SVIDResponse`, and wiped, since keys are in them; `vault` keeps these. Throws a `CAError` `bad-response`. */
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
    return decode(() => X509SVIDResponse.decode(bytes), answer).svids
  } finally {
    bytes.fill(0)
  }
}

function readSvids(svids: readonly X509SVID[], answer: Answer, vault: KeyVault): SvidUpdate['svids'] {
  if (svids.length === 0) throw badAnswer(answer, 'has no identity')
  const bundles = new BundleReader(answer)
  const read = new Map<SpiffeId, Svid>()
  for (const { spiffeId, x509Svid, x509SvidKey, bundle, hint } of svids) {
    if (!isSpiffeId(spiffeId)) throw badAnswer(answer, 'has an identity that is not a SPIFFE ID')
    // Several registrations may have the same identity and differ by a hint: the first is the default.
    if (read.has(spiffeId)) {
      x509SvidKey.fill(0)
      continue
    }
    const roots = bundles.read(bundle, spiffeId)
    const chain = certificates(x509Svid, `the certificate of ${spiffeId}`, answer).filter(pem => !roots.includes(pem))
    if (chain.length === 0 || chain.length > MAX_CHAIN)
      throw badAnswer(answer, `has ${chain.length} certificates for ${spiffeId}, not 1 to ${MAX_CHAIN}`)
    if (x509SvidKey.length === 0) throw badAnswer(answer, `has no key for ${spiffeId}`)
    read.set(spiffeId, {
      chain,
      privateKey: new SealedKey(vault, x509SvidKey),
      roots,
      hint: hint.length > MAX_HINT ? '' : hint,
    })
  }
  return read
}

/** `bytes` are an `X509BundlesResponse`. Throws a `CAError` `bad-response`. */
export function readBundles(bytes: Buffer, answer: Answer): Bundles {
  const { bundles } = decode(() => X509BundlesResponse.decode(bytes), answer)
  const read = new Map<string, readonly string[]>()
  for (const [id, bundle] of bundles) {
    const trustDomain = id.replace(/^spiffe:\/\//, '')
    if (trustDomainProblem(trustDomain) !== undefined)
      throw badAnswer(answer, 'has a bundle of a name that is not a trust domain')
    read.set(trustDomain, certificates(bundle, `the bundle of ${trustDomain}`, answer))
  }
  return read
}

/** Wipes the keys. */
export function wipe({ svids }: SvidUpdate): void {
  for (const { privateKey } of svids.values()) privateKey.wipe()
}

/** A thousand identities have the same roots. */
class BundleReader {
  readonly #answer: Answer
  #last: { readonly bytes: Buffer; readonly roots: readonly string[] } | undefined

  constructor(answer: Answer) {
    this.#answer = answer
  }

  read(bytes: Buffer, spiffeId: string): readonly string[] {
    if (!this.#last?.bytes.equals(bytes))
      this.#last = { bytes, roots: certificates(bytes, `the bundle of ${spiffeId}`, this.#answer) }
    return this.#last.roots
  }
}

function decode<T>(read: () => T, answer: Answer): T {
  try {
    return read()
  } catch (error) {
    throw badAnswer(answer, 'is not a message of the Workload API', error)
  }
}

const SEQUENCE = 0x30
/** No certificate is as short: a message of empty elements would become thirty times its size. */
const MIN_CERTIFICATE_BYTES = 100

/** DER elements, one after the other, as PEM. */
function certificates(bytes: Buffer, what: string, answer: Answer): readonly string[] {
  const pems: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = at + lengthAt(bytes, at)
    if (bytes[at] !== SEQUENCE || !(end <= bytes.length))
      throw badAnswer(answer, `has ${what} in bytes that are not DER`)
    if (end - at < MIN_CERTIFICATE_BYTES)
      throw badAnswer(answer, `has ${what} with an element that is not a certificate`)
    pems.push(derToPem(bytes.subarray(at, end), 'CERTIFICATE'))
    at = end
  }
  return pems
}

/** Of the element at `at` with its header; `NaN` if it is longer than any certificate. */
function lengthAt(bytes: Buffer, at: number): number {
  const [, first = 0x80, second = 0, third = 0] = bytes.subarray(at, at + 4)
  if (first < 0x80) return 2 + first
  if (first === 0x81) return 3 + second
  return first === 0x82 ? 4 + (second << 8) + third : Number.NaN
}

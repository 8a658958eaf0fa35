/**
 * Builds the path from a leaf to a root on node:crypto, without the addon: names, key identifiers, key usages, dates, keys and signatures.
 * Path lengths, name constraints and critical extensions are not looked at: the addon, which has Envoy's own library, does so.
 */
import type { KeyObject } from 'node:crypto'
import type { Certificate } from './certificate.ts'

/** Signatures that one search checks. The dearest cost half a millisecond, and the event loop waits. */
const MAX_SIGNATURES = 25
/** Partial paths that one search follows: certificates that all certify each other make hundreds of thousands. */
const MAX_PATHS = 100

export interface FoundPath {
  /** Leaf first, each issued by the next, without the anchor. */
  readonly certificates: readonly Certificate[]
  /** Index. */
  readonly anchor: number
  /** When all certificates of the path are valid, the anchor too; milliseconds since the epoch. */
  readonly notBefore: number
  readonly notAfter: number
}

export interface SearchTime {
  /** Milliseconds since the epoch. */
  readonly now: number
  /** An issuer may start as late as this: clocks differ. */
  readonly latestNotBefore: number
}

/**
 * The path that is valid longest, though no longer than its leaf; of several the one that is usable first, then the
 * shortest. The order of the intermediates does not matter; `chain` starts with the leaf. An anchor that cannot be read
 * is `undefined`. One good path is enough: a certificate that breaks a rule closes only the paths through it.
 */
export function findPath(
  chain: readonly Certificate[],
  anchors: readonly (Certificate | undefined)[],
  time: SearchTime,
): FoundPath | { readonly refused: string | undefined } {
  const search = new Search(chain, anchors, time)
  search.run()
  return search.best ?? { refused: search.refusal }
}

class Search {
  best: FoundPath | undefined
  refusal: string | undefined
  readonly #chain: readonly Certificate[]
  readonly #all: readonly (Certificate | undefined)[]
  readonly #time: SearchTime
  readonly #checked = new Map<string, boolean>()
  #isExhausted = false

  constructor(chain: readonly Certificate[], anchors: readonly (Certificate | undefined)[], time: SearchTime) {
    this.#chain = chain
    this.#all = [...chain, ...anchors]
    this.#time = time
  }

  /** Breadth first. */
  run(): void {
    const paths: (readonly number[])[] = this.#chain.length > 0 ? [[0]] : []
    for (const path of paths) {
      for (const at of [...this.#all.keys()].slice(this.#chain.length))
        if (this.#extends(path, at) && this.#offer(path, at)) return
      for (const index of this.#chain.keys()) {
        if (index === 0 || path.includes(index) || this.#isRepeated(index) || !this.#extends(path, index)) continue
        if (paths.length === MAX_PATHS) this.#giveUp()
        else paths.push([...path, index])
      }
      if (this.#isExhausted) return
    }
  }

  #giveUp(): void {
    this.#isExhausted = true
    this.refusal = 'too many certificates share a name'
  }

  #isRepeated(index: number): boolean {
    const der = this.#chain[index]?.der
    return this.#chain.slice(1, index).some(other => der?.equals(other.der))
  }

  #extends(path: readonly number[], at: number): boolean {
    const [subject, issuer] = [this.#all[path.at(-1) ?? 0], this.#all[at]]
    if (this.#isExhausted || !issuer || !subject?.x509.checkIssued(issuer.x509)) return false
    const broken = brokenRule(subject, issuer, this.#time)
    if (broken === undefined) return this.#isSigned(path.at(-1) ?? 0, at)
    this.refusal ??= `${this.#nameOf(at)} ${broken}`
    return false
  }

  #isSigned(below: number, above: number): boolean {
    const pair = `${below} ${above}`
    const known = this.#checked.get(pair)
    if (known !== undefined) return known
    const [subject, issuer] = [this.#all[below], this.#all[above]]
    if (this.#checked.size === MAX_SIGNATURES) this.#giveUp()
    if (this.#isExhausted || !subject || !issuer) return false
    const isGood = isSignedBy(subject, issuer)
    this.#checked.set(pair, isGood)
    if (!isGood) this.refusal ??= `${this.#nameOf(above)} has the right name and another key than the one that signed`
    return isGood
  }

  #nameOf(at: number): string {
    const root = at < this.#chain.length ? undefined : this.#all[at]
    return root ? `the root with serial ${root.x509.serialNumber.toLowerCase()}` : `element ${at} of the chain`
  }

  /** Takes a whole path if it is better than the best. `true` if no other can be better still. */
  #offer(path: readonly number[], at: number): boolean {
    const all = [...path, at].flatMap(index => this.#all[index] ?? [])
    const [leaf] = all
    const notBefore = Math.max(...all.map(certificate => certificate.notBefore))
    const notAfter = Math.min(...all.map(certificate => certificate.notAfter))
    if (!leaf || notBefore >= notAfter) {
      this.refusal ??= 'its certificates are not valid at one time'
      return false
    }
    const usableFrom = Math.max(notBefore, this.#time.now)
    const { best } = this
    if (
      !best ||
      notAfter > best.notAfter ||
      (notAfter === best.notAfter && usableFrom < Math.max(best.notBefore, this.#time.now))
    ) {
      const anchor = at - this.#chain.length
      this.best = { certificates: all.slice(0, -1), anchor, notBefore, notAfter }
    }
    return notAfter === leaf.notAfter && usableFrom === Math.max(leaf.notBefore, this.#time.now)
  }
}

/** Every rule but the signature, which costs more than all of them. */
function brokenRule(
  subject: Certificate,
  issuer: Certificate,
  { now, latestNotBefore }: SearchTime,
): string | undefined {
  if (!issuer.isCa || issuer.keyUsage?.keyCertSign === false) return 'is not the certificate of a CA'
  if (!servesTls(issuer)) return 'has an extended key usage without server and client authentication'
  if (issuer.notBefore > latestNotBefore || issuer.notAfter <= now) return 'has expired, or is not valid yet'
  const kind = keyKindOf(issuer)
  if (kind === undefined) return 'has a key that is not RSA of 2048 to 8192 bits, P-256, P-384, P-521 or Ed25519'
  const isStrong = STRONG_SIGNATURES.has(subject.x509.signatureAlgorithmOid ?? '')
  return isStrong ? undefined : 'has signed with a hash other than SHA-256, SHA-384 or SHA-512'
}

function isSignedBy(subject: Certificate, issuer: Certificate): boolean {
  try {
    return subject.x509.verify(issuer.x509.publicKey)
  } catch {
    return false // a key of another kind than the signature
  }
}

const TLS_USAGES = ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2']

/** Whether an extended key usage, if there is one, names both server and client authentication. */
export function servesTls({ x509 }: Certificate): boolean {
  return x509.keyUsage === undefined || TLS_USAGES.every(usage => x509.keyUsage.includes(usage))
}

/** ECDSA, RSA (PKCS#1 and PSS) with SHA-256, SHA-384 and SHA-512; Ed25519. */
const STRONG_SIGNATURES: ReadonlySet<string> = new Set([
  ...[2, 3, 4].map(hash => `1.2.840.10045.4.3.${hash}`),
  ...[10, 11, 12, 13].map(hash => `1.2.840.113549.1.1.${hash}`),
  '1.3.101.112',
])

const CURVES: ReadonlySet<string | undefined> = new Set(['prime256v1', 'secp384r1', 'secp521r1'])

/** `undefined` for a key that is weak, costly to verify with, or of another kind. */
export function keyKindOf({ x509 }: Certificate): 'rsa' | 'ec' | 'ed25519' | undefined {
  const key = publicKeyOf(x509)
  const { modulusLength = 0, publicExponent = 0n, namedCurve } = key?.asymmetricKeyDetails ?? {}
  switch (key?.asymmetricKeyType) {
    case 'rsa':
      return modulusLength >= 2_048 && modulusLength <= 8_192 && publicExponent > 1n && publicExponent <= 65_537n
        ? 'rsa'
        : undefined
    case 'ec':
      return CURVES.has(namedCurve) ? 'ec' : undefined
    case 'ed25519':
      return 'ed25519'
    default:
      return undefined
  }
}

function publicKeyOf(x509: Certificate['x509']): KeyObject | undefined {
  try {
    return x509.publicKey
  } catch {
    return undefined // one that OpenSSL does not know
  }
}

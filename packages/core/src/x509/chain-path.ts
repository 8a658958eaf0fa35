/**
 * From a leaf to a trust anchor by the rules of RFC 5280, section 6.1, within bounds. Where Go, BoringSSL and OpenSSL
 * disagree, the strictest of them counts: any of them can be the peer. An anchor is held to the same rules as an
 * intermediate (as in all three), only its own signature is not looked at. `native-keygen/rust/certificate/path.rs` is the
 * same search, step by step, so that both find the same path and the same fault.
 */
import { keyKindOf, signerKindOf } from './algorithms.ts'
import type { Certificate } from './certificate.ts'
import type { AuthorityKey } from './extensions.ts'
import { allows, type Budget } from './name-constraints.ts'

/** Signatures that one search checks. The dearest cost half a millisecond, and the event loop waits. */
const MAX_SIGNATURES = 25
/** Partial paths that one search follows: certificates that all certify each other make hundreds of thousands. */
const MAX_PATHS = 100
/** Names read for, and compared with, name constraints in one search. */
const MAX_COMPARISONS = 20_000

/** The rule that an issuer broke. */
export type PathRule =
  | 'extensions'
  | 'key-identifier'
  | 'authority'
  | 'key-usage'
  | 'extended-key-usage'
  | 'dates'
  | 'path-length'
  | 'key'
  | 'algorithm'
  | 'name-constraints'
  | 'signature'
  | 'effort'

/** Why no path was found, where a certificate was there that is named as the issuer. */
export interface PathRefusal {
  readonly rule: PathRule
  /** Index of the issuer that broke it: in the chain, and after that in the anchors. */
  readonly at: number
}

/** When all certificates of a path are valid, the anchor too; milliseconds since the epoch. */
interface Window {
  readonly notBefore: number
  readonly notAfter: number
}

export interface FoundPath extends Window {
  /** Leaf first, each issued by the next, without the anchor. */
  readonly certificates: readonly Certificate[]
  /** Index. */
  readonly anchor: number
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
): FoundPath | { readonly refused: PathRefusal | undefined } {
  const search = new Search(chain, anchors, time)
  search.run()
  return search.best ?? { refused: search.refusal }
}

class Search {
  best: FoundPath | undefined
  refusal: PathRefusal | undefined
  readonly #chain: readonly Certificate[]
  readonly #all: readonly (Certificate | undefined)[]
  readonly #time: SearchTime
  readonly #checked = new Map<string, boolean>()
  readonly #budget: Budget = { comparisons: MAX_COMPARISONS }

  constructor(chain: readonly Certificate[], anchors: readonly (Certificate | undefined)[], time: SearchTime) {
    this.#chain = chain
    this.#all = [...chain, ...anchors]
    this.#time = time
  }

  /** Breadth first. */
  run(): void {
    const paths: (readonly number[])[] = this.#chain.length > 0 ? [[0]] : []
    for (const path of paths) {
      if (this.#endsUnderAnchor(path)) return
      for (const index of this.#chain.keys()) {
        if (this.#isExhausted()) return
        if (index === 0 || path.includes(index) || this.#isRepeated(index) || !this.#extends(path, index)) continue
        if (paths.length === MAX_PATHS) {
          this.#note('effort', index)
          return
        }
        paths.push([...path, index])
      }
    }
  }

  /** Whether the search is over: nothing better can come. */
  #endsUnderAnchor(path: readonly number[]): boolean {
    for (let at = this.#chain.length; at < this.#all.length; at++) {
      if (this.#isExhausted() || (this.#extends(path, at) && this.#offer(path, at))) return true
    }
    return false
  }

  #isRepeated(index: number): boolean {
    const der = this.#chain[index]?.der
    return this.#chain.slice(1, index).some(other => der?.equals(other.der))
  }

  #extends(path: readonly number[], at: number): boolean {
    const issuer = this.#all[at]
    const below = path.flatMap(index => this.#all[index] ?? [])
    const subject = below.at(-1)
    // An empty name is nobody's (RFC 5280, section 4.1.2.4).
    if (!issuer || !subject?.issuer.equals(issuer.subject) || issuer.subject.equals(NO_NAME)) return false
    const broken = brokenRule(issuer, below, this.#time, this.#budget) ?? this.#brokenSignature(path.at(-1) ?? 0, at)
    if (broken) this.#note(broken, at)
    return broken === undefined
  }

  #brokenSignature(below: number, above: number): PathRule | undefined {
    const [subject, issuer] = [this.#all[below], this.#all[above]]
    if (!subject || !issuer) return 'signature'
    const kind = keyKindOf(issuer.publicKey)
    if (!kind) return 'key'
    // Go cannot read a certificate that names two algorithms, a root neither.
    if (!issuer.algorithm || !subject.algorithm || signerKindOf(subject.algorithm) !== kind) return 'algorithm'
    const pair = `${below} ${above}`
    const known = this.#checked.get(pair)
    if (known === undefined && this.#checked.size === MAX_SIGNATURES) return 'effort'
    const isGood = known ?? isSignedBy(subject, issuer)
    this.#checked.set(pair, isGood)
    return isGood ? undefined : 'signature'
  }

  /** Takes a whole path if it is better than the best. `true` if no other can be better still. */
  #offer(path: readonly number[], at: number): boolean {
    const all = [...path, at].flatMap(index => this.#all[index] ?? [])
    const [leaf] = all
    const notBefore = Math.max(...all.map(certificate => certificate.notBefore))
    const notAfter = Math.min(...all.map(certificate => certificate.notAfter))
    if (!leaf || notBefore >= notAfter) {
      this.#note('dates', at)
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

  /** Keeps the first fault that says something of the issuer, or else the first. */
  #note(rule: PathRule, at: number): void {
    const saysMore = !this.refusal || (isMistakenIdentity(this.refusal.rule) && !isMistakenIdentity(rule))
    if (saysMore || rule === 'effort') this.refusal = { rule, at }
  }

  #isExhausted(): boolean {
    return this.refusal?.rule === 'effort'
  }
}

const NO_NAME = Buffer.of(0x30, 0)

/** Whether it only says that another certificate of this name is the issuer. */
function isMistakenIdentity(rule: PathRule): boolean {
  return rule === 'signature' || rule === 'key-identifier'
}

/** Every rule but the signature, which costs more than all of them. */
function brokenRule(
  issuer: Certificate,
  path: readonly Certificate[],
  { now, latestNotBefore }: SearchTime,
  budget: Budget,
): PathRule | undefined {
  const above = issuer.extensions
  const below = path.at(-1)?.extensions
  if (!above || !below || !above.hasIssuerNames) return 'extensions'
  if (!isAuthority(issuer, above.subjectKey, below.authorityKey)) return 'key-identifier'
  if (!above.isCa) return 'authority'
  if (above.keyUsage?.keyCertSign === false) return 'key-usage'
  if (!above.servesTls) return 'extended-key-usage'
  if (issuer.notBefore > latestNotBefore || issuer.notAfter <= now) return 'dates'
  // RFC 5280, section 4.2.1.9, would not count a self-issued intermediate; Go counts it.
  if (path.length - 1 > (above.pathLength ?? Number.POSITIVE_INFINITY)) return 'path-length'
  const { nameConstraints } = above
  const isAllowed = path.every(({ attributes, extensions }, index) => {
    const named = { attributes, names: extensions?.names ?? [] }
    return !nameConstraints || allows(nameConstraints, named, index === 0, budget)
  })
  if (isAllowed) return undefined
  return budget.comparisons === 0 ? 'effort' : 'name-constraints'
}

/**
 * The authority key identifier, as far as it says something, is this issuer's (RFC 5280, section 4.2.1.1). Go would take it
 * for a hint, BoringSSL and OpenSSL refuse another issuer.
 */
function isAuthority(issuer: Certificate, subjectKey: Buffer | undefined, wanted: AuthorityKey | undefined): boolean {
  const fits = (value: Buffer | undefined, own: Buffer | undefined) => !value || !own || value.equals(own)
  return fits(wanted?.key, subjectKey) && fits(wanted?.serial, issuer.serial) && fits(wanted?.issuer, issuer.issuer)
}

function isSignedBy(subject: Certificate, issuer: Certificate): boolean {
  try {
    return subject.x509.verify(issuer.x509.publicKey)
  } catch {
    return false // a key that OpenSSL does not know
  }
}

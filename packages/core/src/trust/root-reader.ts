/** Reads roots before anybody trusts them: bounded in count, size and validity, and never many in one turn of the event loop. */

import { createHash, X509Certificate } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { type CertificateVerifier, MAX_CLOCK_SKEW_MS } from '../contract/certificate-verifier.ts'
import { MAX_ROOT_LENGTH, MAX_ROOTS, MAX_ROOTS_LENGTH, type Root } from '../contract/trust-anchor.ts'
import { errorText } from '../text/error-text.ts'
import { datesOf, readCertificate } from '../x509/certificate.ts'

/** How much is read in one turn, in characters. A root counts for at least {@link MIN_COST}: parsing a short one takes 30 µs too. */
const COST_PER_TURN = 65_536
const MIN_COST = 4_096
const MAX_KNOWN = 256
const REASONS_SHOWN = 3
/** RFC 5280 section 4.1.2.2: 20 bytes. */
const MAX_SERIAL = 40

export interface ReadRoots {
  /** Each once, in their order. */
  readonly roots: readonly Root[]
  /** Why certificates were left out. */
  readonly rejected: readonly string[]
  /** Whether none was left out unread, for its size or because there were too many. */
  readonly isWhole: boolean
  /** When the next root that is not valid yet becomes valid, milliseconds since the epoch. */
  readonly validFrom: number | undefined
}

/** Remembers the roots that it has read: the same ones come with every certificate. */
export class RootReader {
  readonly #verifier: Pick<CertificateVerifier, 'readsRoot'>
  readonly #known = new Map<string, Root>()
  #knownLength = 0
  #last: { readonly pems: readonly string[]; readonly read: ReadRoots } | undefined
  #left = COST_PER_TURN
  #nextTurn: Promise<void> | undefined

  constructor(verifier: Pick<CertificateVerifier, 'readsRoot'> = {}) {
    this.#verifier = verifier
  }

  /** Reads PEM, one certificate per element. Never rejects: what cannot be used is in `rejected`, with the reason. */
  async read(pems: readonly string[], now: number): Promise<ReadRoots> {
    const sorted = withinLimits(pems)
    const read: (Root | string)[] = []
    for (const pem of sorted.pems) {
      if (!this.#known.has(pem)) await this.#spend(Math.max(MIN_COST, pem.length))
      read.push(this.readOne(pem))
    }
    const judged = judge(read, sorted, now)
    // A copy: the caller may change its list.
    if (judged.rejected.length === 0) this.#last = { pems: [...pems], read: judged }
    return judged
  }

  /** The result of {@link read}, if the last list was the same, and every root was and still is accepted. */
  sameAsLast(pems: readonly string[], now: number): ReadRoots | undefined {
    const last = this.#last
    const isSame = last?.pems.length === pems.length && last.pems.every((pem, index) => pem === pems[index])
    return isSame && last.read.roots.every(root => problemOf(root, now) === undefined) ? last.read : undefined
  }

  /** The root, or why it cannot be used, whatever its dates. */
  readOne(pem: string): Root | string {
    const known = this.#known.get(pem)
    if (known) return known
    const root = parse(pem, this.#verifier)
    if (typeof root !== 'string') this.#remember(pem, root)
    return root
  }

  /** One budget for all concurrent reads. */
  async #spend(cost: number): Promise<void> {
    while (this.#left < cost) {
      this.#nextTurn ??= setImmediate().then(() => {
        this.#left = COST_PER_TURN
        this.#nextTurn = undefined
      })
      await this.#nextTurn
    }
    this.#left -= cost
  }

  #remember(pem: string, root: Root): void {
    this.#known.set(pem, root)
    this.#knownLength += pem.length
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= MAX_KNOWN && this.#knownLength <= MAX_ROOTS_LENGTH) return
      this.#known.delete(oldest)
      this.#knownLength -= oldest.length
    }
  }
}

/** The first reasons, and the number of the others: a peer controls how many there are. */
export function summarize(reasons: readonly string[]): string {
  const shown = reasons.slice(0, REASONS_SHOWN).join('; ')
  return reasons.length > REASONS_SHOWN ? `${shown}; and ${reasons.length - REASONS_SHOWN} more` : shown
}

interface WithinLimits {
  readonly pems: readonly string[]
  readonly rejected: readonly string[]
}

/** Bounds number and length before anything is parsed. */
function withinLimits(all: readonly string[]): WithinLimits {
  const pems: string[] = []
  const rejected: string[] = []
  let length = 0
  for (const pem of all.slice(0, MAX_ROOTS)) {
    if (pem.length > MAX_ROOT_LENGTH) {
      rejected.push(`a root of ${pem.length} characters is longer than ${MAX_ROOT_LENGTH}`)
      continue
    }
    length += pem.length
    if (length > MAX_ROOTS_LENGTH) {
      rejected.push(`its roots have more than ${MAX_ROOTS_LENGTH} characters together`)
      break
    }
    pems.push(pem)
  }
  if (all.length > MAX_ROOTS) rejected.push(`there are ${all.length} roots, more than ${MAX_ROOTS}`)
  return { pems, rejected }
}

function judge(read: readonly (Root | string)[], { rejected: unread }: WithinLimits, now: number): ReadRoots {
  const roots = new Map<string, Root>()
  const rejected = [...unread]
  let validFrom: number | undefined
  for (const root of read) {
    const problem = typeof root === 'string' ? root : problemOf(root, now)
    if (problem !== undefined) rejected.push(problem)
    if (typeof root === 'string') continue
    if (problem === undefined) roots.set(root.fingerprint, root)
    else if (root.notAfter > now)
      validFrom = Math.min(validFrom ?? Number.POSITIVE_INFINITY, root.notBefore - MAX_CLOCK_SKEW_MS)
  }
  return { roots: [...roots.values()], rejected, isWhole: unread.length === 0, validFrom }
}

/** Why a root cannot be used now, by its dates. */
function problemOf({ certificate, notBefore, notAfter }: Root, now: number): string | undefined {
  if (!(notAfter > now)) return `${nameOf(certificate)} expired at ${certificate.validTo}`
  if (!(notBefore <= now + MAX_CLOCK_SKEW_MS))
    return `${nameOf(certificate)} is valid only from ${certificate.validFrom}`
  return undefined
}

/** A serial number may be as long as the certificate. */
export function nameOf({ serialNumber }: X509Certificate): string {
  return `root with serial ${serialNumber.slice(0, MAX_SERIAL)}`
}

function parse(pem: string, verifier: Pick<CertificateVerifier, 'readsRoot'>): Root | string {
  let certificate: X509Certificate
  try {
    certificate = new X509Certificate(pem)
  } catch {
    return `a root of ${pem.length} characters is not an X.509 certificate`
  }
  if (!certificate.ca) return `${nameOf(certificate)} is not a CA certificate`
  const dates = datesOf(certificate)
  if (!dates) return `${nameOf(certificate)} has a date that cannot be read`
  try {
    // OpenSSL reads roots that our reader, which finds issuers and revocation lists, cannot: it must not fail on a trusted root.
    readCertificate(certificate.raw, certificate)
  } catch (error) {
    return `${nameOf(certificate)} cannot be used: ${errorText(error)}`
  }
  if (verifier.readsRoot?.(certificate) === false)
    return `${nameOf(certificate)} is left out: Envoy's library cannot read it, and Envoy would refuse all roots that come with it`
  return {
    fingerprint: createHash('sha256').update(certificate.raw).digest('hex'),
    pem: certificate.toString(),
    certificate,
    ...dates,
  }
}

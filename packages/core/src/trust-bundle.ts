/** The roots of one trust domain, and how they come and go: first old ∪ new, the old one last. */
import { createHash, X509Certificate } from 'node:crypto'
import { TrustBundleSecret } from './secret-item.ts'

/** One trust anchor. */
export interface TrustAnchor {
  /** SHA-256 of the DER, hex. */
  readonly fingerprint: string
  readonly pem: string
  readonly certificate: X509Certificate
  readonly notBefore: number
  readonly notAfter: number
  /** When this bundle first held it, milliseconds since the epoch. */
  readonly learnedAt: number
  /** Until then a leaf under it may meet peers that do not know it yet. */
  readonly settlesAt: number
}

/** `given-up`: missing from the CA's last complete list. `inferred`: only ever seen beside a certificate. */
type Standing = 'listed' | 'inferred' | 'given-up'

/** A root as it is kept from one process to the next. */
export interface StoredRoot extends Pick<TrustAnchor, 'pem' | 'learnedAt' | 'settlesAt'> {
  readonly standing: Standing
  /** The latest notAfter of a leaf seen under it. */
  readonly leavesUntil: number
}

interface Held {
  readonly anchor: TrustAnchor
  standing: Standing
  /** Leaves in use or waiting that chain to it. */
  leases: number
  /** The latest notAfter of a leaf seen under it. */
  leavesUntil: number
}

/** What {@link TrustBundle.learn} did. */
export interface Learned {
  readonly added: readonly TrustAnchor[]
  /** Fingerprints of the roots that the CA no longer lists, new since the last time. */
  readonly givenUp: readonly string[]
  /** Why certificates were left out. */
  readonly rejected: readonly string[]
}

/** Roots compared by the SHA-256 of their DER, never by bytes or order. */
export class TrustBundle {
  readonly trustDomain: string
  readonly #settleMs: number
  readonly #held = new Map<string, Held>()
  #secret: TrustBundleSecret | undefined

  /** `settleMs`: how long peers get to learn a new root before leaves under it are served. */
  constructor(trustDomain: string, settleMs: number) {
    this.trustDomain = trustDomain
    this.#settleMs = settleMs
  }

  /** What SDS hands out, or `undefined` while no root is known. */
  get secret(): TrustBundleSecret | undefined {
    return this.#secret
  }

  anchors(): readonly TrustAnchor[] {
    return [...this.#held.values()].map(held => held.anchor)
  }

  anchor(fingerprint: string): TrustAnchor | undefined {
    return this.#held.get(fingerprint)?.anchor
  }

  isGivenUp(fingerprint: string): boolean {
    return this.#held.get(fingerprint)?.standing === 'given-up'
  }

  /**
   * Adds roots; never removes one. `complete` says that the CA trusts these and no others, so that the missing ones may
   * go once nothing needs them. Certificates that do not parse, are no CA's or have expired are left out.
   */
  learn(pems: readonly string[], { complete, now }: { readonly complete: boolean; readonly now: number }): Learned {
    const parsed = pems.map(pem => this.#present(pem, now) ?? parseAnchor(pem, now))
    const good = parsed.filter(anchor => typeof anchor !== 'string')
    const rejected = parsed.filter(anchor => typeof anchor === 'string')
    const settlesAt = this.#held.size === 0 ? now : now + this.#settleMs
    const added: TrustAnchor[] = []
    for (const root of good) {
      const held = this.#held.get(root.fingerprint)
      if (held) {
        if (complete) held.standing = 'listed'
        continue
      }
      const anchor = { ...root, learnedAt: now, settlesAt }
      this.#held.set(root.fingerprint, {
        anchor,
        standing: complete ? 'listed' : 'inferred',
        leases: 0,
        leavesUntil: 0,
      })
      added.push(anchor)
    }
    // A list without one good root is a fault at the CA, not a wish to trust nobody.
    const givenUp = complete && good.length > 0 ? this.#giveUpAllBut(new Set(good.map(root => root.fingerprint))) : []
    if (added.length > 0) this.#rebuild()
    return { added, givenUp, rejected }
  }

  /** Takes up the roots of the process before, as they were. Gives why some were left out. */
  restore(roots: readonly StoredRoot[], now: number): readonly string[] {
    const rejected: string[] = []
    for (const { pem, learnedAt, settlesAt, standing, leavesUntil } of roots) {
      const root = parseAnchor(pem, now)
      if (typeof root === 'string') {
        rejected.push(root)
        continue
      }
      const anchor = {
        ...root,
        learnedAt: Math.min(learnedAt, now),
        settlesAt: Math.min(settlesAt, now + this.#settleMs),
      }
      this.#held.set(root.fingerprint, { anchor, standing, leases: 0, leavesUntil })
    }
    if (this.#held.size > 0) this.#rebuild()
    return rejected
  }

  /** What `restore` takes up. */
  stored(): readonly StoredRoot[] {
    return [...this.#held.values()].map(({ anchor: { pem, learnedAt, settlesAt }, standing, leavesUntil }) => ({
      pem,
      learnedAt,
      settlesAt,
      standing,
      leavesUntil,
    }))
  }

  /** Keeps a root while a leaf under it, valid until `notAfter`, is in use or waits; dispose it when the leaf goes. */
  lease(fingerprint: string, notAfter: number): Disposable {
    const held = this.#held.get(fingerprint)
    if (!held) throw new TypeError(`Cannot lease root ${fingerprint}: the bundle does not hold it`)
    held.leases++
    held.leavesUntil = Math.max(held.leavesUntil, notAfter)
    return { [Symbol.dispose]: () => void held.leases-- }
  }

  /**
   * Drops the roots that nothing needs any more: given up by the CA, or expired, or (where the CA tells no list) with a
   * newer one in use and every leaf that was seen under them past its end. Never one that is leased, never the last
   * one. Returns whether any went.
   */
  prune(now: number): boolean {
    const newestInUse = Math.max(...[...this.#held.values()].map(held => (held.leases > 0 ? held.anchor.learnedAt : 0)))
    const size = this.#held.size
    for (const [fingerprint, { anchor, standing, leases, leavesUntil }] of this.#held) {
      if (leases > 0 || this.#held.size === 1) continue
      const superseded = standing === 'inferred' && leavesUntil <= now && anchor.learnedAt < newestInUse
      if (standing === 'given-up' || anchor.notAfter <= now || superseded) this.#held.delete(fingerprint)
    }
    if (this.#held.size === size) return false
    this.#rebuild()
    return true
  }

  /** The same roots come with every certificate: reading them each time cost a tenth of a cold start. */
  #present(pem: string, now: number): TrustAnchor | undefined {
    for (const { anchor } of this.#held.values()) if (anchor.pem === pem && anchor.notAfter > now) return anchor
    return undefined
  }

  #giveUpAllBut(listed: ReadonlySet<string>): string[] {
    const givenUp: string[] = []
    for (const [fingerprint, held] of this.#held) {
      if (listed.has(fingerprint) || held.standing === 'given-up') continue
      held.standing = 'given-up'
      givenUp.push(fingerprint)
    }
    return givenUp
  }

  #rebuild(): void {
    const anchors = this.anchors().toSorted((a, b) => (a.fingerprint < b.fingerprint ? -1 : 1))
    const version = createHash('sha256')
    for (const anchor of anchors) version.update(anchor.fingerprint)
    this.#secret = new TrustBundleSecret({
      trustDomain: this.trustDomain,
      version: version.digest('hex'),
      trustedCa: Buffer.from(anchors.map(anchor => anchor.pem).join('')),
    })
  }
}

function parseAnchor(pem: string, now: number): Omit<TrustAnchor, 'learnedAt' | 'settlesAt'> | string {
  let certificate: X509Certificate
  try {
    certificate = new X509Certificate(pem)
  } catch {
    return `a root of ${pem.length} characters is not an X.509 certificate`
  }
  const notAfter = certificate.validToDate.getTime()
  if (!certificate.ca) return `root with serial ${certificate.serialNumber} is not a CA certificate`
  if (!(notAfter > now)) return `root with serial ${certificate.serialNumber} expired at ${certificate.validTo}`
  return {
    fingerprint: createHash('sha256').update(certificate.raw).digest('hex'),
    pem: certificate.toString(),
    certificate,
    notBefore: certificate.validFromDate.getTime(),
    notAfter,
  }
}

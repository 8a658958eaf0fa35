/** The workloads' certificates by true time: since when, with how much life left, and for how long no valid one. */

const NEVER = Number.NaN

export interface ServiceSummary {
  /** Identities that got no certificate at all. */
  readonly neverServed: number
  /** Seconds from the start until the last first certificate, among identities that got one. */
  readonly allServedAfterS: number
  /** The least life left of a certificate in use when its successor came, or at the end, seconds. Negative: it had expired. */
  readonly worstRemainingS: number
  /** Identities that had a certificate once and later lacked a valid one for a time. */
  readonly lapsed: number
  /** Identities without a valid certificate × seconds, counted after each identity's first one. */
  readonly lapsedIdentitySeconds: number
}

/** Identities are numbers from 0; times are milliseconds since the epoch. */
export class ServiceRecord {
  readonly #start: number
  readonly #firstAt: Float64Array
  /** When the certificate in use ends, or was withdrawn. */
  readonly #validUntil: Float64Array
  readonly #hasLapsed: Uint8Array
  readonly #isWithdrawn: Uint8Array
  /** Identities whose certificate has ended without a successor. */
  without = 0
  #waiting: number
  #lapsedMs = 0
  #worstRemainingMs = Number.POSITIVE_INFINITY

  constructor(identities: number, start: number) {
    this.#start = start
    this.#waiting = identities
    this.#firstAt = new Float64Array(identities).fill(NEVER)
    this.#validUntil = new Float64Array(identities).fill(NEVER)
    this.#hasLapsed = new Uint8Array(identities)
    this.#isWithdrawn = new Uint8Array(identities)
  }

  /** Identities that have had no certificate yet. */
  get waiting(): number {
    return this.#waiting
  }

  served(identity: number, at: number, notAfter: number): void {
    if (Number.isNaN(this.#firstAt[identity])) {
      this.#firstAt[identity] = at
      this.#waiting--
    } else this.#replace(identity, at)
    this.#validUntil[identity] = notAfter
    this.#mark(identity, 0)
  }

  withdrawn(identity: number, at: number): void {
    const until = this.#validUntil[identity] ?? NEVER
    this.#validUntil[identity] = Math.min(until, at)
    this.#mark(identity, 1)
  }

  /** Includes what is in use at the end. */
  finish(at: number): ServiceSummary {
    for (const [identity, first] of this.#firstAt.entries()) if (!Number.isNaN(first)) this.#replace(identity, at)
    const served = this.#firstAt.filter(first => !Number.isNaN(first))
    return {
      neverServed: this.#waiting,
      allServedAfterS: served.reduce((last, first) => Math.max(last, first - this.#start), 0) / 1_000,
      worstRemainingS: this.#worstRemainingMs / 1_000,
      lapsed: this.#hasLapsed.reduce((sum, one) => sum + one, 0),
      lapsedIdentitySeconds: this.#lapsedMs / 1_000,
    }
  }

  #mark(identity: number, isWithdrawn: 0 | 1): void {
    this.without += isWithdrawn - (this.#isWithdrawn[identity] ?? 0)
    this.#isWithdrawn[identity] = isWithdrawn
  }

  #replace(identity: number, at: number): void {
    const remaining = (this.#validUntil[identity] ?? NEVER) - at
    this.#worstRemainingMs = Math.min(this.#worstRemainingMs, remaining)
    if (remaining >= 0) return
    this.#lapsedMs -= remaining
    this.#hasLapsed[identity] = 1
  }
}

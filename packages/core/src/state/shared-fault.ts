/** One cause that identities may share: counts their failures, and says when one request probes it. It reads no clock and draws no chance. */

/** The number of uncontradicted failures in a row that counts as one cause. */
const FAILURES_TO_OPEN = 3
/** The time between the end of a probe that waited for its connection and the next probe. */
const PAUSE_MS = 100
/** Two probes start at least this far apart, even when somebody waits: it bounds the cost of a fault for the CA. */
const HURRIED_PROBE_MS = 500
const MIN_INTERVAL_MS = 1_000
const MAX_INTERVAL_MS = 10_000
/** No connection shows that a CA accepts requests again, so refusals are probed this often while an identity has no certificate. */
const MAX_INTERVAL_OF_REFUSALS_MS = 2_000
/** The time from one probe to the next, as a share of the fault so far: an hour's outage is noticed to end within seven seconds. */
const SHARE_OF_FAULT = 1 / 500
/** The same interval as a share of the time until the first certificate ends: while all live long, there is no hurry. */
const SHARE_OF_LIFE = 1 / 100
/** The time after which a probe without an answer counts as hanging, perhaps on a dead connection: the next one starts. */
export const HANGING_MS = 2_000

/**
 * `absence`: there is no CA, so only the probe asks, and each failure of one identity counts.
 * `refusals`: one code for many. Others may succeed, so only refused identities wait, and each counts once.
 */
export type FaultNature = 'absence' | 'refusals'

export interface FailedRequest {
  /** The identity that failed. */
  readonly of: unknown
  /** Others succeed while it fails: it counts once in a row, however often it is tried; with refusals, not at all. */
  readonly isAlone: boolean
  readonly startedAt: number
  readonly now: number
  /** The shortest remaining life of a certificate among identities that wait for the CA, milliseconds; 0 without a certificate. */
  readonly leastLeftMs: () => number
  /** How long the CA asks to wait, milliseconds. */
  readonly requestedWaitMs: number
  /** A random number in [0, 1). */
  readonly random: number
}

/** Closed without evidence of a shared cause; open from the third failure in a row until one is contradicted. */
export class SharedFault {
  readonly #nature: FaultNature
  #failures = 0
  /** The identities that have counted already in this row. */
  readonly #counted = new Set<unknown>()
  #lastContradictedAt = Number.NEGATIVE_INFINITY
  #isOpen = false
  /** The times of the first failure in the row. */
  #first = { at: 0, startedAt: 0 }
  #lastProbeAt = Number.NEGATIVE_INFINITY
  #lastProber: unknown
  #nextProbeAt = Number.NEGATIVE_INFINITY
  /** The time between the starts of the last failed probe and the next, milliseconds. */
  #wait = MIN_INTERVAL_MS

  constructor(nature: FaultNature) {
    this.#nature = nature
  }

  /** When the first failure came, milliseconds since the epoch; `undefined` while there is no fault. */
  get since(): number | undefined {
    return this.#isOpen ? this.#first.at : undefined
  }

  /** When the next probe starts at the earliest, milliseconds since the epoch; `undefined` while none is needed. */
  get nextProbeAt(): number | undefined {
    return this.#isOpen ? this.#nextProbeAt : undefined
  }

  /** When it was last shown that there is no such fault, milliseconds since the epoch. */
  get lastContradictedAt(): number {
    return this.#lastContradictedAt
  }

  /**
   * An answer to a request that was sent at `startedAt` shows that there is no such fault: for `absence` any, for `refusals`
   * a certificate, unless it was asked for before the first refusal. Returns since when there was one, if there was.
   */
  contradicted(startedAt: number, now: number): number | undefined {
    const { since } = this
    if (this.#nature === 'refusals' && this.#failures > 0 && startedAt < this.#first.startedAt) return undefined
    this.#lastContradictedAt = now
    this.forget()
    return since
  }

  /** The identities that failed are gone: there is no evidence for such a fault, or against it. */
  forget(): void {
    this.#failures = 0
    this.#counted.clear()
    this.#isOpen = false
  }

  /**
   * A request of `of` starts. While the fault is open it is the probe, and no other starts until it has failed or hangs.
   * Returns how long it waits for a connection, milliseconds: until the next probe, so that one always waits.
   */
  started(now: number, of: unknown): number | undefined {
    if (!this.#isOpen) return undefined
    this.#lastProbeAt = now
    this.#lastProber = of
    const interval = Math.max(HANGING_MS, this.#wait)
    this.#nextProbeAt = now + interval
    return interval - PAUSE_MS
  }

  /** A failure of its kind. `true` if it opened the fault. */
  failed(request: FailedRequest): boolean {
    const { of, startedAt, now, requestedWaitMs } = request
    // A request that was sent before the last contradiction says nothing new.
    if (startedAt < this.#lastContradictedAt) return false
    this.#count(request)
    const opens = !this.#isOpen && this.#failures >= FAILURES_TO_OPEN
    if (opens) this.#isOpen = true
    // Refusals of others do not postpone the probe: a caller could otherwise do so by asking for ever more names.
    const isProbe = startedAt >= this.#lastProbeAt && (this.#nature === 'absence' || of === this.#lastProber)
    if (opens || (this.#isOpen && isProbe)) {
      this.#wait = this.#interval(request)
      // The first probe waits for a connection at once: most outages are short.
      const due = opens && this.#nature === 'absence' ? now : startedAt + this.#wait
      this.#nextProbeAt = Math.max(due, now + Math.max(requestedWaitMs, PAUSE_MS))
    }
    return opens
  }

  /** The probe that was sent at `startedAt` was inconclusive: the next one takes its place at once. */
  passed(startedAt: number, now: number): void {
    if (startedAt >= this.#lastProbeAt) this.#nextProbeAt = Math.min(this.#nextProbeAt, now)
  }

  /** Somebody waits: the next probe starts soon. Not for use while one is in flight. */
  hurry(now: number): void {
    this.#nextProbeAt = Math.min(this.#nextProbeAt, Math.max(now, this.#lastProbeAt + HURRIED_PROBE_MS))
  }

  /** The noted times are meaningless after a jump: an open fault is probed now. */
  clockJumped(now: number): void {
    this.#lastProbeAt = Number.NEGATIVE_INFINITY
    this.#nextProbeAt = now
    this.#lastContradictedAt = Math.min(this.#lastContradictedAt, now)
    const { at, startedAt } = this.#first
    this.#first = { at: Math.min(at, now), startedAt: Math.min(startedAt, now) }
  }

  #count({ of, isAlone, startedAt, now }: FailedRequest): void {
    const countsOnce = isAlone || this.#nature === 'refusals'
    if (this.#isOpen || (countsOnce && this.#counted.has(of)) || (isAlone && this.#nature === 'refusals')) return
    if (countsOnce) this.#counted.add(of)
    if (this.#failures++ === 0) this.#first = { at: now, startedAt }
  }

  #interval({ now, leastLeftMs, random }: FailedRequest): number {
    const leftMs = leastLeftMs()
    const wanted = Math.max((now - this.#first.at) * SHARE_OF_FAULT, leftMs * SHARE_OF_LIFE)
    const isUrgent = this.#nature === 'refusals' && leftMs === 0
    const interval = Math.min(
      Math.max(wanted, MIN_INTERVAL_MS),
      isUrgent ? MAX_INTERVAL_OF_REFUSALS_MS : MAX_INTERVAL_MS,
    )
    // Nodes that have a fault together must not probe together.
    return interval * (0.8 + 0.4 * random)
  }
}

/** Whether the CA as a whole is down, and when one request probes it meanwhile: pure arithmetic, with time and chance as arguments. */

/** So many failures in a row, with no answer in between, say that the CA is down for all. */
const FAILURES_TO_OPEN = 3
/** Between the end of a probe that waited for its connection and the next. */
const PAUSE_MS = 100
/** Two probes start at least this far apart, also when somebody waits: the bound of what an outage costs the CA. */
const HURRIED_PROBE_MS = 500
const MIN_INTERVAL_MS = 1_000
const MAX_INTERVAL_MS = 10_000
/** The time from one probe to the next, as a share of the outage so far: an hour's outage is noticed to end within seven seconds. */
const SHARE_OF_OUTAGE = 1 / 500
/** And as a share of the time after which the first certificate ends: while all live long, there is no hurry. */
const SHARE_OF_LIFE = 1 / 100
/** A probe without an answer for so long hangs, and the next one does not wait for it: it may be on a dead connection. */
export const HANGING_MS = 2_000

export interface FailedProbe {
  /** The identity that failed. */
  readonly of: unknown
  /** The CA answers others while it fails: it counts once in a row, however often it is tried. */
  readonly isAlone: boolean
  readonly startedAt: number
  readonly now: number
  /** The least that an identity which waits for the CA has left of its certificate, milliseconds; 0 for one without. */
  readonly leastLeftMs: number
  /** How long the CA asks to wait, milliseconds. */
  readonly requestedWaitMs: number
  /** In [0, 1). */
  readonly random: number
}

/** Closed while the CA answers, whatever it answers; open from the third failure in a row until the next answer. */
export class CACircuit {
  #failures = 0
  /** Of the row, those that fail alone. */
  readonly #alone = new Set<unknown>()
  #lastAnswerAt = Number.NEGATIVE_INFINITY
  /** Of the first failure in the row, while it is open. */
  #downSince: number | undefined
  #firstFailureAt = 0
  #lastProbeAt = Number.NEGATIVE_INFINITY
  #nextProbeAt = Number.NEGATIVE_INFINITY
  /** From the start of the last probe that failed to the next, milliseconds. */
  #wait = MIN_INTERVAL_MS

  /** Since when the CA is down, milliseconds since the epoch; `undefined` while it is not. */
  get downSince(): number | undefined {
    return this.#downSince
  }

  /** When the next probe starts at the earliest, milliseconds since the epoch; `undefined` while none is needed. */
  get nextProbeAt(): number | undefined {
    return this.#downSince === undefined ? undefined : this.#nextProbeAt
  }

  /** When the CA last gave a certificate or refused one, milliseconds since the epoch. */
  get lastAnswerAt(): number {
    return this.#lastAnswerAt
  }

  /** A certificate or a refusal: the CA is there. Returns since when it was down, if it was. */
  answered(now: number): number | undefined {
    const downSince = this.#downSince
    this.#failures = 0
    this.#alone.clear()
    this.#lastAnswerAt = now
    this.#downSince = undefined
    return downSince
  }

  /**
   * A request starts. While the circuit is open that is the probe, and no other starts until it has failed or hangs.
   * Returns how long it is to wait for a connection, milliseconds: until the next one, so that there is always one that
   * waits.
   */
  started(now: number): number | undefined {
    if (this.#downSince === undefined) return undefined
    this.#lastProbeAt = now
    const interval = Math.max(HANGING_MS, this.#wait)
    this.#nextProbeAt = now + interval
    return interval - PAUSE_MS
  }

  /** No answer. `true` if this failure opened the circuit. */
  failed(probe: FailedProbe): boolean {
    const { startedAt, now } = probe
    // A request that was sent before the last answer says nothing new.
    if (startedAt < this.#lastAnswerAt) return false
    this.#count(probe)
    const opens = this.#downSince === undefined && this.#failures >= FAILURES_TO_OPEN
    if (opens) this.#downSince = this.#firstFailureAt
    if (opens || (this.#downSince !== undefined && startedAt >= this.#lastProbeAt)) {
      this.#wait = this.#interval(probe)
      this.#nextProbeAt = Math.max(startedAt + this.#wait, now + Math.max(probe.requestedWaitMs, PAUSE_MS))
    }
    return opens
  }

  /** Somebody waits: the next probe starts soon. Not for use while one is in flight. */
  hurry(now: number): void {
    this.#nextProbeAt = Math.min(this.#nextProbeAt, Math.max(now, this.#lastProbeAt + HURRIED_PROBE_MS))
  }

  /** Times that were noted mean nothing any more: a CA that is down is probed now. */
  clockJumped(now: number): void {
    this.#lastProbeAt = Number.NEGATIVE_INFINITY
    this.#nextProbeAt = now
    this.#lastAnswerAt = Math.min(this.#lastAnswerAt, now)
    this.#firstFailureAt = Math.min(this.#firstFailureAt, now)
  }

  #count({ of, isAlone, now }: FailedProbe): void {
    if (isAlone && this.#alone.has(of)) return
    if (isAlone) this.#alone.add(of)
    if (this.#failures++ === 0) this.#firstFailureAt = now
  }

  #interval({ now, leastLeftMs, random }: FailedProbe): number {
    const wanted = Math.max((now - this.#firstFailureAt) * SHARE_OF_OUTAGE, leastLeftMs * SHARE_OF_LIFE)
    const interval = Math.min(Math.max(wanted, MIN_INTERVAL_MS), MAX_INTERVAL_MS)
    // Nodes that lost the CA together must not probe it together.
    return interval * (0.8 + 0.4 * random)
  }
}

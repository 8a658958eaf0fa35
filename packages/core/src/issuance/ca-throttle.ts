/** How much is asked of the CA at once, in which order, and when nothing is asked at all. */

import type { CAError, CertificateRequest } from '../contract/ca-client.ts'
import { isAbsence } from '../contract/ca-failure.ts'
import type { Urgency } from '../identity/managed-identity.ts'
import type { Clock } from '../time/clock.ts'
import { after } from '../time/deadline.ts'
import { CongestionWindow } from './congestion-window.ts'
import { FetchQueue } from './fetch-queue.ts'
import type { ScheduleStatus } from './schedule-status.ts'
import { type FailedRequest, SharedFault } from './shared-fault.ts'

/** How long nothing is asked of a CA that has no room and does not say for how long: doubled each time. */
const MIN_PAUSE_MS = 500
const MAX_PAUSE_MS = 8_000

export interface CAThrottleOptions {
  readonly clock: Clock
  readonly random: () => number
  /** At most so many requests are in flight. */
  readonly concurrency: number
  /** The longest wait that the CA can ask for, milliseconds. */
  readonly maxWaitMs: number
  /** See {@link FailedRequest.leastLeftMs}. */
  readonly leastLeftMs: () => number
  /** Called when the CA as a whole is down: until it is back, one request at a time probes it. */
  readonly onDown: () => void
  /** Called when it answers again, with the time of the first failure. */
  readonly onBack: (downSince: number) => void
}

/** When a request was sent. */
export interface SentRequest {
  /** Milliseconds since the epoch. */
  readonly at: number
  /** See {@link Clock.idle}. */
  readonly idle: number
  /** See {@link CertificateRequest.connectWithinMs}. */
  readonly connectWithinMs: number | undefined
}

/** Sends one request per key, as many at once as the CA takes. */
export class CAThrottle<Key> implements Disposable {
  readonly #options: CAThrottleOptions
  readonly #window: CongestionWindow
  readonly #queue: FetchQueue<Key>
  readonly #absence = new SharedFault('absence')
  #nextProbe: Disposable | undefined
  #isHeld = false
  /** The CA has asked for a rest, or needs one. */
  #pause = {
    since: Number.NEGATIVE_INFINITY,
    until: Number.NEGATIVE_INFINITY,
    timer: undefined as Disposable | undefined,
  }
  /** Refusals for want of room in a row. */
  #refusals = 0

  /** `send` must not reject. */
  constructor(options: CAThrottleOptions, send: (key: Key, sent: SentRequest) => Promise<void>) {
    this.#options = options
    this.#window = new CongestionWindow(options.concurrency)
    this.#queue = new FetchQueue(
      () => this.#limit(),
      key => {
        const now = options.clock.now()
        const connectWithinMs = this.#absence.started(now, key)
        this.#armProbe()
        return send(key, { at: now, idle: this.#idle(now), connectWithinMs })
      },
    )
  }

  /** While the CA is down: when it is probed next, milliseconds since the epoch. */
  get nextProbeAt(): number | undefined {
    return this.#absence.nextProbeAt
  }

  /** When the CA last answered, milliseconds since the epoch. */
  get lastAnswerAt(): number {
    return this.#absence.lastContradictedAt
  }

  /** When the CA is asked again, milliseconds since the epoch; in the past unless it is left alone now. */
  get pausedUntil(): number {
    return this.#pause.until
  }

  status(): ScheduleStatus {
    const queue = this.#queue
    return {
      queued: queue.depths(),
      inFlight: queue.running,
      window: this.#window.current,
      pause: this.#pausedBy(),
      downSince: this.#absence.since,
    }
  }

  /** See {@link FetchQueue.push}. */
  push(key: Key, urgency: Urgency, deadline?: number): void {
    this.#queue.push(key, urgency, deadline)
  }

  delete(key: Key): void {
    this.#queue.delete(key)
  }

  /** Somebody waits: a CA that is down is probed soon. */
  hurry(): void {
    if (this.#queue.running > 0 || this.#absence.nextProbeAt === undefined) return
    this.#absence.hurry(this.#options.clock.now())
    this.#armProbe()
  }

  /** A request had its certificate. */
  succeeded(sent: SentRequest): void {
    const now = this.#options.clock.now()
    this.#answered(sent, now)
    this.#window.answered(sent.at, now, this.#waitedMs(sent, now))
    this.#refusals = 0
    if (this.#pause.timer && sent.at > this.#pause.since) this.#endPause()
  }

  /** One request finds out whether a CA without room has some by now. */
  probePause(): void {
    if (!this.#isHeld) this.#queue.startOneInPause()
  }

  /**
   * A request of `key` failed: what that says of the CA itself counts for all. `isAlone`: the CA answers others
   * meanwhile.
   */
  failed(key: Key, failure: CAError, { sent, isAlone }: { sent: SentRequest; isAlone: boolean }): void {
    const startedAt = sent.at
    const now = this.#options.clock.now()
    if (failure.local) {
      this.#probeWasWasted(now)
      return
    }
    if (isAbsence(failure)) {
      this.#window.overloaded(startedAt, now)
      this.#absent(failure, { of: key, isAlone, startedAt, now })
      return
    }
    this.#answered(sent, now)
    if (failure.code === 'rate-limited') this.#refusedForRoom(failure, startedAt, now)
    else this.#window.refused(this.#waitedMs(sent, now))
  }

  /** How long the CA asks to wait, within reason: it must not keep a node quiet until its certificates have ended. */
  requestedWait({ retryAfterMs }: CAError): number | undefined {
    return retryAfterMs !== undefined && retryAfterMs >= 0 ? Math.min(retryAfterMs, this.#options.maxWaitMs) : undefined
  }

  /** Every key has to be deleted before. */
  [Symbol.dispose](): void {
    this.#pause.timer?.[Symbol.dispose]()
    this.#nextProbe?.[Symbol.dispose]()
  }

  /** Starts nothing until `release`. */
  hold(): void {
    this.#isHeld = true
  }

  /** After the clock jumped. */
  release(): void {
    this.#isHeld = false
    this.#absence.clockJumped(this.#options.clock.now())
    this.#armProbe()
    if (this.#pause.timer === undefined) this.#queue.resume()
  }

  #pausedBy(): ScheduleStatus['pause'] {
    if (this.#isHeld) return { reason: 'clock-jumped', until: undefined }
    if (this.#pause.timer) return { reason: 'rate-limited', until: this.#pause.until }
    const { nextProbeAt } = this.#absence
    return nextProbeAt === undefined ? undefined : { reason: 'ca-down', until: nextProbeAt }
  }

  #idle(now: number): number {
    return this.#options.clock.idle?.() ?? now
  }

  /** Answers that lay unread while this process was busy say nothing of the CA. */
  #waitedMs({ at, idle }: SentRequest, now: number): number {
    return Math.min(now - at, this.#idle(now) - idle)
  }

  #limit(): number {
    if (this.#isHeld) return 0
    const { clock, concurrency } = this.#options
    const { nextProbeAt } = this.#absence
    const wanted = nextProbeAt === undefined ? this.#window.current : this.#queue.running + 1
    return nextProbeAt !== undefined && clock.now() < nextProbeAt ? 0 : Math.min(wanted, concurrency)
  }

  #absent(failure: CAError, request: Pick<FailedRequest, 'of' | 'isAlone' | 'startedAt' | 'now'>): void {
    const { random, leastLeftMs, onDown } = this.#options
    const requestedWaitMs = this.requestedWait(failure) ?? 0
    const opens = this.#absence.failed({ ...request, leastLeftMs, requestedWaitMs, random: random() })
    this.#armProbe()
    if (opens) onDown()
  }

  #answered(sent: SentRequest, now: number): void {
    const downSince = this.#absence.contradicted(sent.at, now)
    if (downSince === undefined) return
    this.#nextProbe?.[Symbol.dispose]()
    this.#window.restart(now)
    this.#options.onBack(downSince)
  }

  /** While the CA is down: the next identity probes it. */
  #probeWasWasted(now: number): void {
    if (this.#absence.nextProbeAt === undefined) return
    this.#absence.hurry(now)
    this.#armProbe()
  }

  #armProbe(): void {
    const { clock } = this.#options
    const { nextProbeAt } = this.#absence
    if (nextProbeAt === undefined) return
    this.#nextProbe?.[Symbol.dispose]()
    this.#nextProbe = after(clock, nextProbeAt - clock.now(), () => {
      if (this.#pause.timer === undefined) this.#queue.resume()
    })
  }

  #refusedForRoom(failure: CAError, startedAt: number, now: number): void {
    // Requests that were sent before the pause say nothing new, and a probe must not make it longer.
    if (this.#pause.timer || startedAt <= this.#pause.since) return
    this.#window.overloaded(startedAt, now)
    const wait =
      this.requestedWait(failure) ?? Math.min(MIN_PAUSE_MS * 2 ** Math.min(this.#refusals++, 30), MAX_PAUSE_MS)
    // Nodes that were refused together must not come back together.
    this.#pauseUntil(now + wait * (1 + this.#options.random()))
  }

  #pauseUntil(until: number): void {
    const { clock } = this.#options
    this.#queue.pause()
    const timer = after(clock, until - clock.now(), () => this.#endPause())
    this.#pause = { since: clock.now(), until, timer }
  }

  #endPause(): void {
    this.#pause.timer?.[Symbol.dispose]()
    this.#pause = { ...this.#pause, timer: undefined }
    this.#queue.resume()
  }
}

/** How much is asked of the CA at once, in which order, and when nothing is asked at all. */

import type { CAError } from '../contract/ca-client.ts'
import type { Urgency } from '../identity/managed-identity.ts'
import type { Clock } from '../time/clock.ts'
import { CongestionWindow } from './congestion-window.ts'
import { FetchQueue } from './fetch-queue.ts'

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
}

/** Sends one request per key, as many at once as the CA takes. */
export class CAThrottle<Key> implements Disposable {
  readonly #options: CAThrottleOptions
  readonly #window: CongestionWindow
  readonly #queue: FetchQueue<Key>
  /** The CA has asked for a rest, or needs one. */
  #pause = {
    since: Number.NEGATIVE_INFINITY,
    until: Number.NEGATIVE_INFINITY,
    timer: undefined as Disposable | undefined,
  }
  /** Refusals for want of room in a row. */
  #refusals = 0

  /** `send` must not reject. */
  constructor(options: CAThrottleOptions, send: (key: Key) => Promise<void>) {
    this.#options = options
    const window = new CongestionWindow(options.concurrency)
    this.#window = window
    this.#queue = new FetchQueue(() => window.current, send)
  }

  /** When the CA is asked again, milliseconds since the epoch; in the past unless it is left alone now. */
  get pausedUntil(): number {
    return this.#pause.until
  }

  /** See {@link FetchQueue.push}. */
  push(key: Key, urgency: Urgency, deadline?: number): void {
    this.#queue.push(key, urgency, deadline)
  }

  delete(key: Key): void {
    this.#queue.delete(key)
  }

  /** A request that was sent at `startedAt` had its certificate. */
  succeeded(startedAt: number): void {
    this.#window.answered(startedAt, this.#options.clock.now())
    this.#refusals = 0
  }

  /** A request that was sent at `startedAt` failed: what that says of the CA itself counts for all. */
  failed(failure: CAError, startedAt: number): void {
    const { code } = failure
    const now = this.#options.clock.now()
    if (code === 'rate-limited' || code === 'timeout' || code === 'unavailable') this.#window.overloaded(startedAt, now)
    else this.#window.refused(startedAt, now)
    // Requests that were sent before the pause say nothing new.
    if (code !== 'rate-limited' || startedAt <= this.#pause.since) return
    const wait =
      this.requestedWait(failure) ?? Math.min(MIN_PAUSE_MS * 2 ** Math.min(this.#refusals++, 30), MAX_PAUSE_MS)
    // Nodes that were refused together must not come back together.
    this.#pauseUntil(now + wait * (1 + this.#options.random()))
  }

  /** How long the CA asks to wait, within reason: it must not keep a node quiet until its certificates have ended. */
  requestedWait({ retryAfterMs }: CAError): number | undefined {
    return retryAfterMs !== undefined && retryAfterMs >= 0 ? Math.min(retryAfterMs, this.#options.maxWaitMs) : undefined
  }

  /** Every key has to be deleted before. */
  [Symbol.dispose](): void {
    this.#pause.timer?.[Symbol.dispose]()
  }

  #pauseUntil(until: number): void {
    const { clock } = this.#options
    this.#queue.pause()
    this.#pause.timer?.[Symbol.dispose]()
    this.#pause = { since: clock.now(), until, timer: clock.at(until, () => this.#queue.resume()) }
  }
}

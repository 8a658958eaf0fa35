/** The requests of one caller: answered at its rate, in slices of a turn of the event loop; beyond either its streams wait. */
import type { Clock } from '@livery/core/plugin'
import { LeakyBucket, type Rate } from './leaky-bucket.ts'
import { NextTurn } from './next-turn.ts'

/** One stream. */
export interface RequestReader {
  /** Hands out the request that waits. Must not throw. */
  takeTurn(): void
}

/** How fast a socket answers one caller. */
export interface Pace {
  readonly clock: Clock
  readonly rate: Rate
  /** Called when the rate delays `streams` streams, at most every 10 s for one caller. */
  onSlowed(streams: number): void
}

/** One caller's part of a turn of the event loop, while others wait. The time in the kernel comes on top. */
const SLICE_MS = 8
/** Bounds a slice even if the clock stands still. */
const MAX_REQUESTS = 1_024
/** The number of requests from which the end of the turn is watched: an occasional request costs no immediate. */
const WATCHED_REQUESTS = 16
/** How often a caller over its rate continues. */
const WAKES_PER_SECOND = 100
/** How often a caller that its rate holds back is reported. */
const REPORT_MS = 10_000

/**
 * First come, first served, one request of each stream at a time. A waiting stream is not read, so that the windows of HTTP/2
 * slow its peer down. One timer or immediate wakes all waiting streams.
 */
export class RequestQueue {
  readonly #bucket = new LeakyBucket()
  readonly #waiting = new Map<RequestReader, Pace>()
  /** Time spent on answers in this turn of the event loop. */
  #usedMs = 0
  #requests = 0
  /** When the admitted request that `count` will count began. */
  #startedAt = 0
  #turnOf: RequestReader | undefined
  readonly #nextTurn = new NextTurn(() => this.#onTurn())
  #wake: Disposable | undefined
  #reportedAt: number | undefined

  /** Whether `reader` may hand out a request now. If not, it gets a turn, never inside this call. */
  admits(reader: RequestReader, pace: Pace): boolean {
    const isNext = this.#waiting.size === 0 || this.#turnOf === reader
    this.#startedAt = pace.clock.now()
    if (isNext && this.#hasTime() && this.#bucket.waitMs(this.#startedAt, pace.rate) === 0) return true
    this.#waiting.set(reader, pace)
    if (!this.#turnOf) this.#schedule()
    return false
  }

  /** Counts a request that was admitted and answered. */
  count({ clock, rate }: Pace): void {
    this.#turnOf = undefined
    const now = clock.now()
    this.#bucket.add(now, rate)
    // Whole milliseconds are enough: over many requests they add up.
    this.#usedMs += Math.max(0, now - this.#startedAt)
    if (++this.#requests >= WATCHED_REQUESTS || this.#usedMs >= SLICE_MS / 2) this.#nextTurn.schedule()
  }

  /** Counts work that cannot wait as `amount` requests. */
  add(amount: number, { clock, rate }: Pace): void {
    this.#bucket.add(clock.now(), rate, amount)
  }

  /** Counts as `add` does, unless that exceeds the rate. Returns whether it counted. */
  take(amount: number, { clock, rate }: Pace): boolean {
    return this.#bucket.take(clock.now(), rate, amount)
  }

  delete(reader: RequestReader): void {
    this.#waiting.delete(reader)
    if (this.#waiting.size === 0) this.#stopWake()
  }

  #hasTime(): boolean {
    return this.#usedMs < SLICE_MS && this.#requests < MAX_REQUESTS
  }

  #onTurn(): void {
    this.#usedMs = 0
    this.#requests = 0
    this.#slice()
  }

  #slice(): void {
    for (const [reader, { clock, rate }] of this.#waiting) {
      if (!this.#hasTime() || this.#bucket.waitMs(clock.now(), rate) > 0) break
      this.#waiting.delete(reader)
      this.#turnOf = reader
      reader.takeTurn()
      this.#turnOf = undefined
    }
    this.#schedule()
  }

  /** Wakes the first waiting stream at the next turn of the event loop, or as soon as the rate allows more. */
  #schedule(): void {
    if (this.#wake || this.#nextTurn.isScheduled) return
    const [pace] = this.#waiting.values()
    if (!pace) return
    const { clock, rate } = pace
    const now = clock.now()
    if (this.#bucket.waitMs(now, rate) === 0) {
      this.#nextTurn.schedule()
      return
    }
    this.#reportSlowed(pace, now)
    const some = Math.min(this.#waiting.size, Math.ceil(rate.perSecond / WAKES_PER_SECOND))
    this.#wake = clock.at(now + this.#bucket.waitMs(now, rate, some), () => {
      this.#wake = undefined
      this.#slice()
    })
  }

  #reportSlowed(pace: Pace, now: number): void {
    // The clock could have been set back.
    if (this.#reportedAt !== undefined && Math.abs(now - this.#reportedAt) < REPORT_MS) return
    this.#reportedAt = now
    pace.onSlowed(this.#waiting.size)
  }

  #stopWake(): void {
    this.#wake?.[Symbol.dispose]()
    this.#wake = undefined
  }
}

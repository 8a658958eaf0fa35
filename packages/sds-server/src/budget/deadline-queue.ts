/** One timeout for many entries: since all have the same timeout, the first to come is the first to be late. */
import type { Clock } from '@livery/core/plugin'
import { NextTurn } from './next-turn.ts'

/** Called when a deadline has passed. */
export interface Late {
  /** Must not throw. */
  onLate(): void
}

/** Ending a stream takes 0.1 ms, so the next ones wait for another turn of the event loop. */
const LATE_OF_A_TURN = 64

/** One timer for all, as thousands of streams wait for their first message at once. */
export class DeadlineQueue {
  readonly #clock: Clock
  readonly #waitMs: number
  readonly #waiting = new Map<Late, number>()
  readonly #nextTurn = new NextTurn(() => this.#onTime())
  #timer: Disposable | undefined

  constructor(clock: Clock, waitMs: number) {
    this.#clock = clock
    this.#waitMs = waitMs
  }

  /** The time in messages. */
  get seconds(): number {
    return this.#waitMs / 1_000
  }

  /** `late` is late after the time of this queue, unless it is deleted before. */
  add(late: Late): void {
    this.#waiting.set(late, this.#clock.now() + this.#waitMs)
    this.#arm()
  }

  delete(late: Late): void {
    this.#waiting.delete(late)
  }

  [Symbol.dispose](): void {
    this.#waiting.clear()
    this.#timer?.[Symbol.dispose]()
    this.#timer = undefined
  }

  #arm(): void {
    if (this.#timer) return
    for (const due of this.#waiting.values()) {
      this.#timer = this.#clock.at(due, () => this.#onTime())
      return
    }
  }

  #onTime(): void {
    this.#timer?.[Symbol.dispose]()
    this.#timer = undefined
    const now = this.#clock.now()
    let left = LATE_OF_A_TURN
    for (const [late, due] of this.#waiting) {
      // A clock that was set back at most doubles the wait.
      if (due > now && due - now <= this.#waitMs) break
      if (left-- === 0) {
        this.#nextTurn.schedule()
        return
      }
      this.#waiting.delete(late)
      late.onLate()
    }
    this.#arm()
  }
}

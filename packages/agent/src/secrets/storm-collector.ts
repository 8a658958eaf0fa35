/** Gives memory back after a storm of certificates: V8 itself waits until it needs the room, which may take hours. */
import type { Clock } from '@livery/core/plugin'

/** Certificates with about 15 MB of garbage. */
const STORM = 1_000
const CALM_MS = 3_000

/** Collects once a thousand certificates or more were issued and then none for 3 s. */
export class StormCollector implements Disposable {
  readonly #clock: Clock
  readonly #collect: () => void
  #issued = 0
  #lastIssue = Number.NEGATIVE_INFINITY
  #timer: Disposable | undefined

  /** `collect` collects all garbage at once. It stops the event loop for about 30 µs per held identity. */
  constructor(clock: Clock, collect: () => void) {
    this.#clock = clock
    this.#collect = collect
  }

  issued(): void {
    this.#issued++
    this.#lastIssue = this.#clock.now()
    if (this.#issued >= STORM && !this.#timer) this.#waitForCalm()
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]()
  }

  #waitForCalm(): void {
    this.#timer = this.#clock.at(this.#lastIssue + CALM_MS, () => {
      this.#timer = undefined
      if (this.#clock.now() < this.#lastIssue + CALM_MS) this.#waitForCalm()
      else {
        this.#issued = 0
        this.#collect()
      }
    })
  }
}

/** A clock that can be set forward: waits by it take no real time. */
import { setImmediate } from 'node:timers/promises'
import { type Clock, SystemClock } from '@livery/core/plugin'

interface Deadline {
  readonly time: number
  readonly task: () => void
  timer: Disposable
}

/** Turns of the event loop in which work that a deadline started can continue. */
const TURNS = 5

export class MovableClock implements Clock, Disposable {
  readonly #system = new SystemClock()
  readonly #deadlines = new Set<Deadline>()
  #aheadMs = 0

  /** How many deadlines are waited for. */
  get waiting(): number {
    return this.#deadlines.size
  }

  now(): number {
    return this.#system.now() + this.#aheadMs
  }

  at(time: number, task: () => void): Disposable {
    const deadline: Deadline = { time, task, timer: this.#arm(time, () => this.#run(deadline)) }
    this.#deadlines.add(deadline)
    return { [Symbol.dispose]: () => this.#drop(deadline) }
  }

  /** Sets the time forward and runs what is due; negative: sets it back. */
  async advance(ms: number): Promise<void> {
    this.#aheadMs += ms
    for (const deadline of [...this.#deadlines].sort((a, b) => a.time - b.time)) {
      if (deadline.time <= this.now()) {
        this.#run(deadline)
      } else {
        deadline.timer[Symbol.dispose]()
        deadline.timer = this.#arm(deadline.time, () => this.#run(deadline))
      }
    }
    for (let turn = 0; turn < TURNS; turn++) await setImmediate()
  }

  [Symbol.dispose](): void {
    this.#deadlines.clear()
    this.#system[Symbol.dispose]()
  }

  #arm(time: number, task: () => void): Disposable {
    return this.#system.at(time - this.#aheadMs, task)
  }

  #run(deadline: Deadline): void {
    if (!this.#deadlines.has(deadline)) return
    this.#drop(deadline)
    deadline.task()
  }

  #drop(deadline: Deadline): void {
    this.#deadlines.delete(deadline)
    deadline.timer[Symbol.dispose]()
  }
}

/** Time that passes as fast as the work allows, for thousands of nodes at once; each node has a clock of its own on it. */
import { setImmediate } from 'node:timers/promises'
import type { Clock } from '@livery/core'
import { Heap } from '@livery/core/decide'

class Deadline implements Disposable {
  readonly time: number
  readonly order: number
  task: (() => void) | undefined

  constructor(time: number, order: number, task: () => void) {
    this.time = time
    this.order = order
    this.task = task
  }

  [Symbol.dispose](): void {
    this.task = undefined
  }
}

export class VirtualTime {
  readonly start: number
  #now: number
  readonly #deadlines = new Heap<Deadline>((a, b) => (a.time === b.time ? a.order < b.order : a.time < b.time))
  #set = 0
  #hasPromises = false

  /** `start`: whole milliseconds since the epoch. */
  constructor(start: number = Date.UTC(2026, 0, 1)) {
    this.start = start
    this.#now = start
  }

  now(): number {
    return this.#now
  }

  /** As `Clock.at`, in whole milliseconds; deadlines of one millisecond run in the order in which they were set. */
  at(time: number, task: () => void): Disposable {
    const deadline = new Deadline(Math.max(Math.ceil(time), this.#now), this.#set++, task)
    this.#deadlines.push(deadline)
    return deadline
  }

  /** The clock of a node that is `offsetMs` ahead of the true time (behind, if negative). Its tasks may use promises. */
  clock(offsetMs = 0): Clock {
    return {
      now: () => this.#now + offsetMs,
      at: (time, task) =>
        this.at(time - offsetMs, () => {
          task()
          this.settle()
        }),
    }
  }

  /** What is under way in promises goes on before the next deadline runs. */
  settle(): void {
    this.#hasPromises = true
  }

  /** Moves on to `time`, running each deadline at its time. */
  async runUntil(time: number): Promise<void> {
    const end = Math.max(Math.ceil(time), this.#now)
    for (;;) {
      if (this.#hasPromises) {
        this.#hasPromises = false
        // All promise callbacks have run once an immediate has.
        await setImmediate()
        continue
      }
      const next = this.#deadlines.peek()
      if (!next || next.time > end) break
      this.#deadlines.pop()
      this.#now = next.time
      next.task?.()
    }
    this.#now = end
  }
}

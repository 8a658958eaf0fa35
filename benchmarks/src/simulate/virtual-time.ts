/** Time that passes as fast as the work allows, for thousands of nodes at once. */
import { Heap } from '@livery/core/decide'

interface Deadline {
  readonly time: number
  readonly order: number
  readonly task: () => void
  place: number
}

export class VirtualTime {
  readonly start: number
  #now: number
  readonly #deadlines = new Heap<Deadline>((a, b) => a.order < b.order)
  #set = 0

  /** `start`: whole milliseconds since the epoch. */
  constructor(start: number = Date.UTC(2026, 0, 1)) {
    this.start = start
    this.#now = start
  }

  now(): number {
    return this.#now
  }

  /** Runs `task` at `time`, in whole milliseconds; tasks of the same time in the order of the calls. Returns a function that cancels it. */
  at(time: number, task: () => void): () => void {
    const deadline: Deadline = { time: Math.max(Math.ceil(time), this.#now), order: this.#set++, task, place: -1 }
    this.#deadlines.put(deadline, deadline.time)
    return () => this.#deadlines.delete(deadline)
  }

  /** Moves on to `time`, running each task at its time. */
  runUntil(time: number): void {
    const end = Math.max(Math.ceil(time), this.#now)
    for (let next = this.#deadlines.take(end); next; next = this.#deadlines.take(end)) {
      this.#now = next.time
      next.task()
    }
    this.#now = end
  }
}

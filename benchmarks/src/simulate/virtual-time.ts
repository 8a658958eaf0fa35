/** Time that passes as fast as the work allows, for thousands of nodes at once; each node has a clock of its own on it. */
import { setImmediate } from 'node:timers/promises'
import type { Clock } from '@livery/core'

const SECOND_MS = 1_000

class Deadline implements Disposable {
  readonly time: number
  #task: (() => void) | undefined

  constructor(time: number, task: () => void) {
    this.time = time
    this.#task = task
  }

  run(): void {
    const task = this.#task
    this.#task = undefined
    task?.()
  }

  [Symbol.dispose](): void {
    this.#task = undefined
  }
}

/**
 * Deadlines of whole milliseconds, kept by the second and sorted only when that second comes: a million of them cost
 * what they hold, and a quiet hour next to nothing.
 */
export class VirtualTime {
  readonly start: number
  #now: number
  readonly #later = new Map<number, Deadline[]>()
  /** The deadlines of the present second, by millisecond. */
  readonly #slots: Deadline[][] = Array.from({ length: SECOND_MS }, () => [])
  #inSlots = 0

  /** `start`: whole milliseconds since the epoch. */
  constructor(start: number = Date.UTC(2026, 0, 1)) {
    this.start = start
    this.#now = start
  }

  now(): number {
    return this.#now
  }

  /** As `Clock.at`; deadlines of one millisecond run in the order in which they were set. */
  at(time: number, task: () => void): Disposable {
    const deadline = new Deadline(Math.max(Math.ceil(time), this.#now), task)
    const second = secondOf(deadline.time)
    if (second === secondOf(this.#now)) this.#fill(deadline)
    else {
      const others = this.#later.get(second)
      if (others) others.push(deadline)
      else this.#later.set(second, [deadline])
    }
    return deadline
  }

  /** The clock of a node that is `offsetMs` ahead of the true time (behind, if negative). */
  clock(offsetMs = 0): Clock {
    return { now: () => this.#now + offsetMs, at: (time, task) => this.at(time - offsetMs, task) }
  }

  /** Moves on to `time`, running each deadline at its time and letting what it started go on before the next. */
  async runUntil(time: number): Promise<void> {
    const end = Math.ceil(time)
    for (;;) {
      await this.#runNow()
      if (this.#now >= end) return
      const next = this.#inSlots > 0 ? this.#now + 1 : (secondOf(this.#now) + 1) * SECOND_MS
      this.#moveTo(Math.min(next, end))
    }
  }

  async #runNow(): Promise<void> {
    const index = this.#now % SECOND_MS
    for (let due = this.#slots[index]; due && due.length > 0; due = this.#slots[index]) {
      this.#slots[index] = []
      this.#inSlots -= due.length
      for (const deadline of due) deadline.run()
      // Everything that is modelled settles in promise callbacks, all of which have run once an immediate has.
      await setImmediate()
    }
  }

  #moveTo(time: number): void {
    const second = secondOf(time)
    const isNew = second !== secondOf(this.#now)
    this.#now = time
    if (!isNew) return
    for (const deadline of this.#later.get(second) ?? []) this.#fill(deadline)
    this.#later.delete(second)
  }

  #fill(deadline: Deadline): void {
    this.#slots[deadline.time % SECOND_MS]?.push(deadline)
    this.#inSlots++
  }
}

function secondOf(time: number): number {
  return Math.floor(time / SECOND_MS)
}

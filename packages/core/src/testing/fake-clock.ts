/** A clock for tests that moves on demand: nothing waits in real time, and a test can wait until code waits. */
import { setImmediate } from 'node:timers/promises'
import type { Clock, ClockJump } from '../time/clock.ts'
import { Heap } from '../time/heap.ts'

interface Deadline {
  time: number
  readonly isRelative: boolean
  readonly order: number
  readonly task: () => void
  place: number
}

/** Less is drift, as for the clock of the machine. */
const JUMP_MS = 5_000

/** Starts at 2026-01-01T00:00:00Z by default. */
export class FakeClock implements Clock {
  #now: number
  readonly #deadlines = new Heap<Deadline>((a, b) => a.order < b.order)
  #added = 0
  readonly #waiters = new Set<() => void>()
  readonly #listeners = new Set<(jump: ClockJump) => void>()
  #unseenJump = 0
  /** Relative deadlines that were set between a jump and its detection: they have the expected time. */
  readonly #setInJump = new Set<Deadline>()
  #busyMs = 0

  constructor(now: number = Date.UTC(2026, 0, 1)) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  at(time: number, task: () => void): Disposable {
    return this.#add({ time, task, isRelative: false, order: this.#added++, place: -1 })
  }

  after(ms: number, task: () => void): Disposable {
    const unseen = Math.abs(this.#unseenJump) < JUMP_MS ? 0 : this.#unseenJump
    const deadline = { time: this.#now - unseen + ms, task, isRelative: true, order: this.#added++, place: -1 }
    if (unseen !== 0) this.#setInJump.add(deadline)
    return this.#add(deadline)
  }

  onJump(listener: (jump: ClockJump) => void): Disposable {
    this.#listeners.add(listener)
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
  }

  #add(deadline: Deadline): Disposable {
    this.#deadlines.put(deadline, deadline.time)
    for (const wake of this.#waiters) wake()
    return { [Symbol.dispose]: () => this.#deadlines.delete(deadline) }
  }

  /** The times that somebody waits for, earliest first. */
  deadlines(): readonly number[] {
    return this.#times().sort((a, b) => a - b)
  }

  /** Moves time forward, running each task at its own time and letting what it started continue in between. */
  async advance(ms: number): Promise<void> {
    this.#seeJump()
    const end = this.#now + ms
    for (let next = this.#deadlines.take(end); next; next = this.#deadlines.take(end)) {
      this.#now = Math.max(this.#now, next.time)
      next.task()
      await setImmediate()
    }
    this.#now = end
    await setImmediate()
  }

  /** Moves the wall clock without running anything, as a set clock or a sleeping machine does; `advance(0)` is the tick. */
  jump(ms: number): void {
    this.#now += ms
    this.#unseenJump += ms
  }

  /** Time passes while the process is busy: what fell due meanwhile runs afterwards. */
  async busy(ms: number): Promise<void> {
    this.#busyMs += ms
    this.#now += ms
    await this.advance(0)
  }

  idle(): number {
    return this.#now - this.#busyMs
  }

  #seeJump(): void {
    const ms = this.#unseenJump
    const setInJump = [...this.#setInJump]
    this.#unseenJump = 0
    this.#setInJump.clear()
    if (Math.abs(ms) < JUMP_MS) return
    const moved = ms < 0 ? this.#deadlines.things().filter(({ isRelative }) => isRelative) : setInJump
    for (const deadline of moved.filter(({ place }) => place !== -1)) {
      deadline.time += ms
      this.#deadlines.put(deadline, deadline.time)
    }
    for (const listener of this.#listeners) listener({ kind: ms > 0 ? 'forward' : 'back', ms: Math.abs(ms) })
  }

  /** Resolves once somebody waits for a time that `matches`. */
  async waitForDeadline(matches: (time: number) => boolean): Promise<void> {
    while (!this.#times().some(matches)) {
      await new Promise<void>(resolve => {
        const wake = () => {
          this.#waiters.delete(wake)
          resolve()
        }
        this.#waiters.add(wake)
      })
    }
  }

  #times(): number[] {
    return this.#deadlines.things().map(({ time }) => time)
  }
}

/** Time, as everything in Livery reads it: wall-clock deadlines that survive sleep, clock jumps and long waits. */

import { performance } from 'node:perf_hooks'
import { Heap } from './heap.ts'

/** Milliseconds since the epoch, and tasks at a wall-clock time. Nothing else in Livery reads the time. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /**
   * Runs `task` once when `now()` has reached `time` (milliseconds since the epoch), soon if it already has, never
   * synchronously. Disposing it before that keeps it from running. `task` must not throw.
   */
  at(time: number, task: () => void): Disposable
  /**
   * Runs `task` once after `ms` milliseconds, also when the clock is set back meanwhile. Absent: as `at`, from now.
   * Callers use `after` of `deadline.ts`.
   */
  after?(ms: number, task: () => void): Disposable
  /**
   * Calls `listener` after a jump of the clock, before any task that is due by the new time. Absent: jumps are not
   * seen.
   */
  onJump?(listener: (jump: ClockJump) => void): Disposable
  /**
   * How long this process has waited for events since some moment, milliseconds: it was busy the rest of the time. Absent:
   * it is never busy.
   */
  idle?(): number
}

/**
 * `forward`: the machine slept, or its clock was set ahead; `back`: its clock was set back; `stopped`: this process did not
 * run (SIGSTOP, a frozen container, a blocked event loop).
 */
export interface ClockJump {
  readonly kind: 'forward' | 'back' | 'stopped'
  /** How far, or for how long, milliseconds. */
  readonly ms: number
}

/**
 * The longest that a deadline waits unseen. `setTimeout` counts monotonic time, so it neither notices that the wall
 * clock was set nor that the machine slept, and over 24.8 days it fires at once (nodejs/node#6956).
 */
const TICK_MS = 10_000

/** Less is drift, a leap second, or a busy machine. */
const JUMP_MS = 5_000

/** A class, since an identity has three: closures would cost another 300 bytes. */
class Deadline implements Disposable {
  time: number
  readonly task: () => void
  /** It counts from when it was set: a clock that is set back moves it. */
  readonly isRelative: boolean
  place = -1
  readonly #onDisposed: (deadline: Deadline) => void

  constructor(time: number, task: () => void, isRelative: boolean, onDisposed: (deadline: Deadline) => void) {
    this.time = time
    this.task = task
    this.isRelative = isRelative
    this.#onDisposed = onDisposed
  }

  [Symbol.dispose](): void {
    if (this.place !== -1) this.#onDisposed(this)
  }
}

/** The machine's clock: a heap of wall-clock deadlines under one timer, looked at every 10 s at least. */
export class SystemClock implements Clock, Disposable {
  readonly #heap = new Heap<Deadline>()
  #timer: NodeJS.Timeout | undefined
  readonly #wall: () => number
  readonly #monotonic: () => number
  readonly #listeners = new Set<(jump: ClockJump) => void>()
  /** Relative deadlines that were set between a jump and its detection: they have the expected time. */
  readonly #setInJump = new Set<Deadline>()
  /** Both clocks when they were last compared, and when the timer should fire by the monotonic one. */
  #seen: { readonly wall: number; readonly monotonic: number; readonly timerAt: number } | undefined
  readonly #onDisposed = (deadline: Deadline) => {
    this.#heap.delete(deadline)
    if (this.#heap.size === 0) this.#stop()
  }

  /** `wall`: milliseconds since the epoch. `monotonic`: milliseconds that neither jump nor count sleep. Default: the machine's. */
  constructor({ wall = Date.now, monotonic = () => performance.now() }: SystemClockSources = {}) {
    this.#wall = wall
    this.#monotonic = monotonic
  }

  now(): number {
    return this.#wall()
  }

  at(time: number, task: () => void): Disposable {
    return this.#add(time, task, false)
  }

  after(ms: number, task: () => void): Disposable {
    const wall = this.now()
    const unseen = this.#unseenJump(wall)
    const deadline = this.#add(wall - unseen + ms, task, true)
    if (unseen !== 0) this.#setInJump.add(deadline)
    return deadline
  }

  onJump(listener: (jump: ClockJump) => void): Disposable {
    this.#listeners.add(listener)
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
  }

  idle(): number {
    return performance.nodeTiming.idleTime
  }

  #add(time: number, task: () => void, isRelative: boolean): Deadline {
    const deadline = new Deadline(time, task, isRelative, this.#onDisposed)
    this.#heap.put(deadline, time)
    if (this.#heap.first === deadline) this.#arm()
    return deadline
  }

  /** Drops every deadline. */
  [Symbol.dispose](): void {
    this.#heap.clear()
    this.#stop()
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#seen = undefined
    this.#setInJump.clear()
  }

  #lookForJump(): void {
    const wall = this.now()
    const monotonic = this.#monotonic()
    const seen = this.#seen
    this.#seen = { wall, monotonic, timerAt: monotonic }
    const jump = seen && jumpBetween(seen, wall, monotonic)
    if (jump?.kind === 'back') this.#move(({ isRelative }) => isRelative, -jump.ms)
    if (jump?.kind === 'forward' && this.#setInJump.size > 0) this.#move(each => this.#setInJump.has(each), jump.ms)
    this.#setInJump.clear()
    if (!jump) return
    for (const listener of this.#listeners) listener(jump)
  }

  /** How far the clock has jumped since it was last looked at, milliseconds: the next look may find it set back again. */
  #unseenJump(wall: number): number {
    if (!this.#seen) return 0
    const parted = wall - this.#seen.wall - (this.#monotonic() - this.#seen.monotonic)
    return Math.abs(parted) >= JUMP_MS ? parted : 0
  }

  #move(concerns: (deadline: Deadline) => boolean, ms: number): void {
    for (const deadline of this.#heap.things().filter(concerns)) {
      deadline.time += ms
      this.#heap.put(deadline, deadline.time)
    }
  }

  #arm(): void {
    const next = this.#heap.first
    if (!next) return
    const wall = this.now()
    const left = next.time - wall + (next.isRelative ? this.#unseenJump(wall) : 0)
    const wait = Math.ceil(Math.min(Math.max(left, 0), TICK_MS))
    const monotonic = this.#monotonic()
    if (this.#timer && this.#seen && this.#seen.timerAt <= monotonic + wait) return
    clearTimeout(this.#timer)
    // A jump between two ticks is seen by the second one.
    this.#seen = {
      wall: this.#seen?.wall ?? wall,
      monotonic: this.#seen?.monotonic ?? monotonic,
      timerAt: monotonic + wait,
    }
    this.#timer = setTimeout(() => this.#tick(), wait)
  }

  #tick(): void {
    this.#timer = undefined
    this.#lookForJump()
    const now = this.now()
    try {
      for (let next = this.#heap.take(now); next; next = this.#heap.take(now)) next.task()
    } finally {
      if (this.#heap.size === 0) this.#stop()
      else this.#arm()
    }
  }
}

export interface SystemClockSources {
  readonly wall?: () => number
  readonly monotonic?: () => number
}

function jumpBetween(
  seen: { readonly wall: number; readonly monotonic: number; readonly timerAt: number },
  wall: number,
  monotonic: number,
): ClockJump | undefined {
  const parted = wall - seen.wall - (monotonic - seen.monotonic)
  if (Math.abs(parted) >= JUMP_MS) return { kind: parted > 0 ? 'forward' : 'back', ms: Math.abs(parted) }
  const late = monotonic - seen.timerAt
  return late >= JUMP_MS ? { kind: 'stopped', ms: late } : undefined
}

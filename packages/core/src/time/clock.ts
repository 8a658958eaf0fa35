/** Time, as everything in Livery reads it: wall-clock deadlines that survive sleep, clock jumps and long waits. */

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
}

/**
 * The longest that a deadline waits unseen. `setTimeout` counts monotonic time, so it neither notices that the wall
 * clock was set nor that the machine slept, and over 24.8 days it fires at once (nodejs/node#6956).
 */
const TICK_MS = 10_000

/** The heap may hold so many disposed deadlines until their time, beside as many as are live. */
const MAX_DISPOSED = 1_000

/** Of a class, since an identity has three of them: closures would cost it another 300 bytes. */
class Deadline implements Disposable {
  readonly time: number
  task: (() => void) | undefined
  readonly #onDisposed: () => void

  constructor(time: number, task: () => void, onDisposed: () => void) {
    this.time = time
    this.task = task
    this.#onDisposed = onDisposed
  }

  [Symbol.dispose](): void {
    if (this.task === undefined) return
    this.task = undefined
    this.#onDisposed()
  }
}

/** The machine's clock: a heap of wall-clock deadlines under one timer, looked at every 10 s at least. */
export class SystemClock implements Clock, Disposable {
  readonly #heap = new Heap<Deadline>((a, b) => a.time < b.time)
  #live = 0
  #timer: NodeJS.Timeout | undefined
  readonly #onDisposed = () => {
    if (--this.#live === 0) this.#stop()
    else if (this.#heap.size > 2 * this.#live + MAX_DISPOSED) this.#heap.retain(({ task }) => task !== undefined)
  }

  now(): number {
    return Date.now()
  }

  at(time: number, task: () => void): Disposable {
    const deadline = new Deadline(time, task, this.#onDisposed)
    this.#heap.push(deadline)
    this.#live++
    if (this.#heap.peek() === deadline) this.#arm()
    return deadline
  }

  /** Drops every deadline. */
  [Symbol.dispose](): void {
    this.#live = 0
    this.#stop()
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#heap.clear()
  }

  #arm(): void {
    clearTimeout(this.#timer)
    const next = this.#heap.peek()
    if (!next) return
    const wait = Math.min(Math.max(next.time - this.now(), 0), TICK_MS)
    this.#timer = setTimeout(() => this.#tick(), Math.ceil(wait))
  }

  #tick(): void {
    const now = this.now()
    try {
      for (let next = this.#heap.peek(); next && next.time <= now; next = this.#heap.peek()) {
        this.#heap.pop()
        if (next.task === undefined) continue
        const { task } = next
        next.task = undefined
        this.#live--
        task()
      }
    } finally {
      // Disposed deadlines that are not due yet keep no process alive.
      if (this.#live === 0) this.#stop()
      else this.#arm()
    }
  }
}

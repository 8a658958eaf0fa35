/** Time, as everything in Livery reads it: wall-clock deadlines that survive sleep, clock jumps and long waits. */

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

interface Deadline {
  readonly time: number
  task: (() => void) | undefined
}

/** The machine's clock: a heap of wall-clock deadlines under one timer, looked at every 10 s at least. */
export class SystemClock implements Clock, Disposable {
  readonly #heap = new DeadlineHeap()
  #live = 0
  #timer: NodeJS.Timeout | undefined

  now(): number {
    return Date.now()
  }

  at(time: number, task: () => void): Disposable {
    const deadline: Deadline = { time, task }
    this.#heap.push(deadline)
    this.#live++
    if (this.#heap.peek() === deadline) this.#arm()
    return {
      [Symbol.dispose]: () => {
        if (deadline.task === undefined) return
        deadline.task = undefined
        if (--this.#live === 0) this.#stop()
      },
    }
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
      this.#arm()
    }
  }
}

/** A binary heap, earliest deadline on top. */
class DeadlineHeap {
  #items: Deadline[] = []

  peek(): Deadline | undefined {
    return this.#items[0]
  }

  clear(): void {
    this.#items = []
  }

  push(item: Deadline): void {
    const items = this.#items
    let index = items.push(item) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = items[parent]
      if (!above || above.time <= item.time) break
      items[index] = above
      index = parent
    }
    items[index] = item
  }

  pop(): void {
    const items = this.#items
    const last = items.pop()
    if (!last || items.length === 0) return
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      const left = items[child]
      if (!left) break
      const right = items[child + 1]
      if (right && right.time < left.time) child++
      const smaller = items[child]
      if (!smaller || smaller.time >= last.time) break
      items[index] = smaller
      index = child
    }
    items[index] = last
  }
}

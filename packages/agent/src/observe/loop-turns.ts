/** Splits long work into slices: other work has a turn of the event loop after each 2 ms. */
import { setImmediate } from 'node:timers/promises'

const SLICE_MS = 2

export class LoopTurns {
  #sliceStart = performance.now()
  #earlierMs = 0

  /** Milliseconds that the work itself took, without the turns of others. */
  get busyMs(): number {
    return this.#earlierMs + performance.now() - this.#sliceStart
  }

  /** Call between two pieces of work. Resolves at once, or in the next turn of the event loop when the slice is over. */
  async next(): Promise<void> {
    const ms = performance.now() - this.#sliceStart
    if (ms < SLICE_MS) return
    this.#earlierMs += ms
    await setImmediate()
    this.#sliceStart = performance.now()
  }
}

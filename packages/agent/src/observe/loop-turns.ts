/** Long work in slices: other work has a turn of the event loop after each 2 ms. */
import { setImmediate } from 'node:timers/promises'

const SLICE_MS = 2

export class LoopTurns {
  #sliceEnd = performance.now() + SLICE_MS

  /** Call between two pieces of work. Resolves at once, or in the next turn of the event loop when the slice is over. */
  async next(): Promise<void> {
    if (performance.now() < this.#sliceEnd) return
    await setImmediate()
    this.#sliceEnd = performance.now() + SLICE_MS
  }
}

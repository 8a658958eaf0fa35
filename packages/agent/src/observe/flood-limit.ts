/** Keeps a flood of alike lines out of the log, and says how many it kept out. */
import { after, type Clock } from '@livery/core'

/** Lines of one kind in one window before the rest is only counted. */
const LINES_PER_WINDOW = 50
const WINDOW_MS = 10_000

interface Window {
  lines: number
  readonly end: Disposable
}

export class FloodLimit implements Disposable {
  readonly #clock: Clock
  readonly #summarize: (kind: string, suppressed: number) => void
  readonly #maxLines: number
  readonly #windows = new Map<string, Window>()

  /** `summarize` is called at the end of a window in which lines were kept out. */
  constructor(clock: Clock, summarize: (kind: string, suppressed: number) => void, maxLines = LINES_PER_WINDOW) {
    this.#clock = clock
    this.#summarize = summarize
    this.#maxLines = maxLines
  }

  /** Whether one more line of this kind may be written: `maxLines` (50) in 10 s. */
  allow(kind: string): boolean {
    let window = this.#windows.get(kind)
    if (!window) {
      window = { lines: 0, end: after(this.#clock, WINDOW_MS, () => this.#endWindow(kind)) }
      this.#windows.set(kind, window)
    }
    return ++window.lines <= this.#maxLines
  }

  [Symbol.dispose](): void {
    for (const { end } of this.#windows.values()) end[Symbol.dispose]()
    this.#windows.clear()
  }

  #endWindow(kind: string): void {
    const suppressed = (this.#windows.get(kind)?.lines ?? 0) - this.#maxLines
    this.#windows.delete(kind)
    if (suppressed > 0) this.#summarize(kind, suppressed)
  }
}

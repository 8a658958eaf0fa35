/** Keeps a flood of lines of one kind out of the log, and reports how many were left out. */
import { after, type Clock } from '@livery/core'

/** Lines of one kind in one window before the rest is only counted. */
const LINES_PER_WINDOW = 50
const WINDOW_MS = 10_000

export type Level = 'debug' | 'info' | 'warn' | 'error'

/** Reports how many lines of a kind were left out, with the level of the last of them. */
export type Summarize = (kind: string, suppressed: number, level: Level) => void

interface Window {
  lines: number
  level: Level
  readonly end: Disposable
}

export class LogRate implements Disposable {
  readonly #clock: Clock
  readonly #summarize: Summarize
  readonly #maxLines: number
  readonly #windows = new Map<string, Window>()

  /** `summarize` is called at the end of a window in which lines were left out. */
  constructor(clock: Clock, summarize: Summarize, maxLines = LINES_PER_WINDOW) {
    this.#clock = clock
    this.#summarize = summarize
    this.#maxLines = maxLines
  }

  /** Whether one more line of this kind may be written: `maxLines` (50) in 10 s. */
  allow(kind: string, level: Level): boolean {
    let window = this.#windows.get(kind)
    if (!window) {
      window = { lines: 0, level, end: after(this.#clock, WINDOW_MS, () => this.#endWindow(kind)) }
      this.#windows.set(kind, window)
    }
    window.level = level
    return ++window.lines <= this.#maxLines
  }

  [Symbol.dispose](): void {
    for (const { end } of this.#windows.values()) end[Symbol.dispose]()
    this.#windows.clear()
  }

  #endWindow(kind: string): void {
    const window = this.#windows.get(kind)
    this.#windows.delete(kind)
    if (window && window.lines > this.#maxLines) this.#summarize(kind, window.lines - this.#maxLines, window.level)
  }
}

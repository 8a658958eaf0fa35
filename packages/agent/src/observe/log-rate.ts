/** Keeps a flood of lines of one kind out of the log, and reports how many were left out. */
import { after, type Clock } from '@livery/core/plugin'

/** Lines of one kind and level in one window before the rest is only counted. */
const LINES_PER_WINDOW = 50
const WINDOW_MS = 10_000

export type Level = 'debug' | 'info' | 'warn' | 'error'

/** Reports how many lines of a kind and level were left out. */
type Summarize<Kind> = (kind: Kind, suppressed: number, level: Level) => void

interface Window {
  lines: number
  readonly end: Disposable
}

/** A flood of good news must not keep the bad news of its kind out of the log. */
type Windows<Kind> = Readonly<Record<Level, Map<Kind, Window>>>

export class LogRate<Kind = string> implements Disposable {
  readonly #clock: Clock
  readonly #summarize: Summarize<Kind>
  readonly #maxLines: number
  readonly #windows: Windows<Kind> = { debug: new Map(), info: new Map(), warn: new Map(), error: new Map() }

  /** `summarize` is called at the end of a window in which lines were left out. */
  constructor(clock: Clock, summarize: Summarize<Kind>, maxLines = LINES_PER_WINDOW) {
    this.#clock = clock
    this.#summarize = summarize
    this.#maxLines = maxLines
  }

  /** Whether one more line of this kind and level may be written: `maxLines` (50) in 10 s. */
  allow(kind: Kind, level: Level): boolean {
    const windows = this.#windows[level]
    let window = windows.get(kind)
    if (!window) {
      window = { lines: 0, end: after(this.#clock, WINDOW_MS, () => this.#endWindow(kind, level)) }
      windows.set(kind, window)
    }
    return ++window.lines <= this.#maxLines
  }

  [Symbol.dispose](): void {
    for (const windows of Object.values(this.#windows)) {
      for (const { end } of windows.values()) end[Symbol.dispose]()
      windows.clear()
    }
  }

  #endWindow(kind: Kind, level: Level): void {
    const windows = this.#windows[level]
    const window = windows.get(kind)
    windows.delete(kind)
    if (window && window.lines > this.#maxLines) this.#summarize(kind, window.lines - this.#maxLines, level)
  }
}

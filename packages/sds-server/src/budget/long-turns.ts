/** Notices turns of the event loop that took long, whatever they were spent on: of most frames nghttp2 reports nothing. */
import { performance } from 'node:perf_hooks'

/** More than the slices of pushes, requests and openings, which are about 8 ms each. */
const LONG_MS = 20

/** How long the event loop has been at work, and did not wait, in milliseconds. */
export type ActiveTime = () => number

export const eventLoopActiveTime: ActiveTime = () => performance.eventLoopUtilization().active

export class LongTurns implements Disposable {
  readonly #activeTime: ActiveTime
  readonly #listeners = new Set<() => void>()
  #activeMs: number
  #immediate: NodeJS.Immediate | undefined

  constructor(activeTime: ActiveTime) {
    this.#activeTime = activeTime
    this.#activeMs = activeTime()
  }

  /** Calls `listener` after each long turn, until the returned object is disposed. */
  subscribe(listener: () => void): Disposable {
    this.#listeners.add(listener)
    this.#immediate ??= this.#next()
    return {
      [Symbol.dispose]: () => {
        this.#listeners.delete(listener)
        if (this.#listeners.size === 0) this[Symbol.dispose]()
      },
    }
  }

  [Symbol.dispose](): void {
    clearImmediate(this.#immediate)
    this.#immediate = undefined
  }

  /** Without a reference an immediate comes behind each poll of the event loop and never keeps it from waiting. */
  #next(): NodeJS.Immediate {
    return setImmediate(() => {
      const before = this.#activeMs
      this.#activeMs = this.#activeTime()
      this.#immediate = this.#next()
      if (this.#activeMs - before >= LONG_MS) for (const listener of this.#listeners) listener()
    }).unref()
  }
}

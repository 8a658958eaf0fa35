/** Runs work once for all who wait for it, and limits it to a part of one core however many ask. */
import { LoopTurns } from './loop-turns.ts'

/** The next run starts 9 ms after a run that took 1 ms at the earliest: a tenth of one core. */
const REST_PER_RUN = 9

export class SharedWork<T> {
  readonly #work: (turns: LoopTurns) => T | Promise<T>
  readonly #maxWaiting: number
  #waiting = 0
  #next: PromiseWithResolvers<T> | undefined
  #isRunning = false
  #notBefore = 0

  /** `work` may continue in later turns of the event loop; no second run starts before it has ended. */
  constructor(work: (turns: LoopTurns) => T | Promise<T>, maxWaiting: number) {
    this.#work = work
    this.#maxWaiting = maxWaiting
  }

  /** The result of a run that starts after this call; `undefined` if too many wait for it. Rejects with the error of the run. */
  result(): Promise<T> | undefined {
    if (++this.#waiting > this.#maxWaiting) return undefined
    if (this.#next) return this.#next.promise
    const next = Promise.withResolvers<T>()
    this.#next = next
    if (!this.#isRunning) this.#schedule(next)
    return next.promise
  }

  #schedule(next: PromiseWithResolvers<T>): void {
    const wait = this.#notBefore - performance.now()
    if (wait > 0) setTimeout(() => void this.#run(next), wait)
    else setImmediate(() => void this.#run(next))
  }

  async #run({ resolve, reject }: PromiseWithResolvers<T>): Promise<void> {
    this.#next = undefined
    this.#waiting = 0
    this.#isRunning = true
    const turns = new LoopTurns()
    try {
      resolve(await this.#work(turns))
    } catch (error) {
      reject(error)
    }
    this.#isRunning = false
    this.#notBefore = performance.now() + REST_PER_RUN * turns.busyMs
    if (this.#next) this.#schedule(this.#next)
  }
}

/** Work that is done once for all who wait for it, and takes a bounded part of one core however many ask. */

/** After a run that took 1 ms the next one starts 9 ms later at the earliest: a tenth of one core. */
const REST_PER_RUN = 9

export class SharedWork<T> {
  readonly #work: () => T | Promise<T>
  readonly #maxWaiting: number
  #waiting = 0
  #next: PromiseWithResolvers<T> | undefined
  #notBefore = 0

  constructor(work: () => T | Promise<T>, maxWaiting: number) {
    this.#work = work
    this.#maxWaiting = maxWaiting
  }

  /** The result of a run that starts after this call; `undefined` if too many wait for it. Rejects with the error of the run. */
  result(): Promise<T> | undefined {
    if (++this.#waiting > this.#maxWaiting) return undefined
    if (this.#next) return this.#next.promise
    const next = Promise.withResolvers<T>()
    this.#next = next
    const wait = this.#notBefore - performance.now()
    if (wait > 0) setTimeout(() => void this.#run(next), wait)
    else setImmediate(() => void this.#run(next))
    return next.promise
  }

  async #run({ resolve, reject }: PromiseWithResolvers<T>): Promise<void> {
    this.#next = undefined
    this.#waiting = 0
    const start = performance.now()
    try {
      resolve(await this.#work())
    } catch (error) {
      reject(error)
    }
    const end = performance.now()
    this.#notBefore = end + REST_PER_RUN * (end - start)
  }
}

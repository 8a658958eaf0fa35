/** Work for callers who may ask without end: all of them together get a tenth of one core for it. */

/** After work that took 1 ms no other begins for 9 ms. */
const REST_PER_WORK = 9

export class CpuShare {
  #restsUntil = 0

  /** The result of `work`; `undefined` while the last one's rest lasts. */
  use<T extends object | string>(work: () => T): T | undefined {
    const start = performance.now()
    if (start < this.#restsUntil) return undefined
    const result = work()
    const end = performance.now()
    this.#restsUntil = end + REST_PER_WORK * (end - start)
    return result
  }
}

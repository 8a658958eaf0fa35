/** Work for callers who may ask without end: all together get a tenth of one core. */

/** Each 1 ms of work is followed by 9 ms without any. */
const REST_PER_WORK = 9

export class CpuShare {
  #restsUntil = 0

  /** The result of `work`; `undefined` during the rest after the previous one. */
  use<T extends object | string>(work: () => T): T | undefined {
    const start = performance.now()
    if (start < this.#restsUntil) return undefined
    const result = work()
    const end = performance.now()
    this.#restsUntil = end + REST_PER_WORK * (end - start)
    return result
  }
}

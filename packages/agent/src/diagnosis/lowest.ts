/** Keeps the few lowest of many values in bounded memory, without sorting all of them. */

interface Offer<T> {
  readonly value: number
  readonly item: T
}

export class Lowest<T> {
  readonly #size: number
  /** Sorted by value up to `#size`, then in order of arrival; at most twice that many. */
  #kept: Offer<T>[] = []
  /** No value above this can be among the lowest. */
  #limit = Number.POSITIVE_INFINITY
  #count = 0

  constructor(size: number) {
    this.#size = size
  }

  /** How many were offered. */
  get count(): number {
    return this.#count
  }

  offer(value: number, item: T): void {
    this.#count++
    if (value >= this.#limit) return
    this.#kept.push({ value, item })
    if (this.#kept.length >= 2 * this.#size) this.#cut()
  }

  /** Lowest first. */
  items(): readonly T[] {
    this.#cut()
    return this.#kept.map(({ item }) => item)
  }

  #cut(): void {
    this.#kept.sort((a, b) => a.value - b.value)
    this.#kept.length = Math.min(this.#kept.length, this.#size)
    const last = this.#kept[this.#size - 1]
    if (last) this.#limit = last.value
  }
}

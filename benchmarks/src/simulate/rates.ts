/** Counts by the second, and their summary: peak, mean, p99. */

export interface RateSummary {
  readonly total: number
  /** The highest count of a second. */
  readonly peak: number
  /** Per second, idle seconds included. */
  readonly mean: number
  /** The count that 99 of 100 seconds do not exceed. */
  readonly p99: number
}

/** A count for each interval of a range: times by the second, or waits by the millisecond. */
export class Counts {
  readonly #start: number
  readonly #width: number
  #counts = new Float64Array(1_024)

  /** A value below `start` counts as `start`. */
  constructor(start: number, width: number) {
    this.#start = start
    this.#width = width
  }

  add(value: number): void {
    const index = Math.max(0, Math.floor((value - this.#start) / this.#width))
    this.#reserve(index)
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
  }

  /** The counts of the intervals that begin in [from, until). */
  between(from: number, until: number): Float64Array {
    const first = Math.max(0, Math.ceil((from - this.#start) / this.#width))
    const end = Math.max(first, Math.ceil((until - this.#start) / this.#width))
    this.#reserve(end)
    return this.#counts.slice(first, end)
  }

  all(): Float64Array {
    return this.#counts.slice()
  }

  #reserve(index: number): void {
    if (index < this.#counts.length) return
    const grown = new Float64Array(Math.max(index + 1, this.#counts.length * 2))
    grown.set(this.#counts)
    this.#counts = grown
  }
}

export function summarise(counts: Float64Array): RateSummary {
  const sorted = counts.toSorted()
  const total = sum(counts)
  return {
    total,
    peak: sorted.at(-1) ?? 0,
    mean: counts.length === 0 ? 0 : total / counts.length,
    p99: sorted[Math.max(0, Math.ceil(sorted.length * 0.99) - 1)] ?? 0,
  }
}

/** The interval that `fraction` of the counted values do not exceed; 0 without values. */
export function quantile(counts: Float64Array, fraction: number): number {
  const wanted = fraction * sum(counts)
  let counted = 0
  const index = counts.findIndex(count => {
    counted += count
    return count > 0 && counted >= wanted
  })
  return Math.max(0, index)
}

export function sum(counts: Float64Array): number {
  return counts.reduce((total, count) => total + count, 0)
}

/** Up to `most` points for a plot, each with the peak of its seconds: a short peak stays visible. */
export function peaks(
  counts: Float64Array,
  most: number,
): readonly { readonly second: number; readonly peak: number }[] {
  const width = Math.max(1, Math.ceil(counts.length / most))
  return Array.from({ length: Math.ceil(counts.length / width) }, (_, index) => ({
    second: index * width,
    peak: counts.subarray(index * width, (index + 1) * width).reduce((a, b) => Math.max(a, b), 0),
  }))
}

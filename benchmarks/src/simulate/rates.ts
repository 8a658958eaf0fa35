/** Counting by the second, and what a row of such counts says: peak, mean, p99. */

export interface RateSummary {
  readonly total: number
  /** Of any one second. */
  readonly peak: number
  /** Per second, idle seconds included. */
  readonly mean: number
  /** 99 of 100 seconds have at most so many. */
  readonly p99: number
}

/** A count for each second since a start; times before it count as the first second. */
export class PerSecond {
  readonly #start: number
  #counts = new Float64Array(1_024)

  /** `start`: milliseconds since the epoch. */
  constructor(start: number) {
    this.#start = start
  }

  /** Adds one at `time`, milliseconds since the epoch. */
  add(time: number): void {
    const index = Math.max(0, this.#indexOf(time))
    this.#reserve(index)
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
  }

  /** Keeps the highest value of the second that contains `time`. */
  raise(time: number, value: number): void {
    const index = Math.max(0, this.#indexOf(time))
    this.#reserve(index)
    this.#counts[index] = Math.max(this.#counts[index] ?? 0, value)
  }

  /** The counts of the seconds that begin in [from, until), milliseconds since the epoch. */
  between(from: number, until: number): Float64Array {
    const first = Math.max(0, Math.ceil((from - this.#start) / 1_000))
    const end = Math.max(first, Math.ceil((until - this.#start) / 1_000))
    this.#reserve(end)
    return this.#counts.slice(first, end)
  }

  #indexOf(time: number): number {
    return Math.floor((time - this.#start) / 1_000)
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
  const total = counts.reduce((sum, count) => sum + count, 0)
  return {
    total,
    peak: sorted.at(-1) ?? 0,
    mean: counts.length === 0 ? 0 : total / counts.length,
    p99: sorted[Math.max(0, Math.ceil(sorted.length * 0.99) - 1)] ?? 0,
  }
}

/** The value that `fraction` of `values` do not exceed; 0 of none. Sorts `values`. */
export function quantile(values: number[], fraction: number): number {
  values.sort((a, b) => a - b)
  return values[Math.max(0, Math.ceil(values.length * fraction) - 1)] ?? 0
}

/** At most `most` points for a plot, each with the highest count of its seconds: a short peak stays visible. */
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

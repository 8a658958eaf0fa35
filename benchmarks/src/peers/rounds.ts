/** Measures several sides in turn, so that other load on the machine affects all alike. */

/** The measurements of one side in one round, by name. */
export type Sample = Readonly<Record<string, number>>

/** One of the compared programs. */
export interface Side {
  readonly name: string
  measure(): Promise<Sample>
}

/** Every side's samples of one measure, in the order of the rounds. */
export type Measured = (side: string, measure: string) => readonly number[]

/** Measures every side once a round; each round begins with a different side, so that none always follows the slowest. */
export async function inRounds(
  rounds: number,
  sides: readonly Side[],
  say: (message: string) => void,
): Promise<Measured> {
  const samples = new Map<string, Sample[]>(sides.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (const side of rotated(sides, round)) {
      const sample = await side.measure()
      samples.get(side.name)?.push(sample)
      const figures = Object.entries(sample).map(([measure, value]) => `${measure} ${value.toPrecision(4)}`)
      say(`round ${round + 1} of ${rounds}, ${side.name}: ${figures.join(', ')}`)
    }
  }
  return (side, measure) =>
    (samples.get(side) ?? []).map(sample => {
      const value = sample[measure]
      if (value === undefined) throw new Error(`${side} did not measure ${measure}`)
      return value
    })
}

/** The middle sample; for an even number, the mean of the two in the middle. */
export function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b)
  const upper = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN
  return (lower + upper) / 2
}

/** The median of `ours[round] / theirs[round]`. */
export function pairRatio(ours: readonly number[], theirs: readonly number[]): number {
  if (ours.length !== theirs.length) throw new RangeError('A ratio of pairs needs as many samples on each side')
  return median(ours.map((value, round) => value / (theirs[round] ?? Number.NaN)))
}

function rotated<T>(items: readonly T[], by: number): T[] {
  const start = items.length === 0 ? 0 : by % items.length
  return [...items.slice(start), ...items.slice(0, start)]
}

/** The verdict of a soak: each demand with the finding. */

/** One line of the log of a soak, every ten seconds. */
export interface Sample {
  /** Counted from when all had a certificate, seconds. */
  readonly second: number
  readonly residentMB: number
  readonly heapMB: number
  readonly renewalsPerSecond: number
  /** The share of one core, from 0 to 1 and above. */
  readonly cpu: { readonly agent: number; readonly ca: number; readonly client: number }
}

/** The answer times of requests on an open stream during one attack. */
interface AnswerSummary {
  readonly attack: string
  readonly count: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly mostMs: number
}

/** The effect of one flood of 25 MB by one caller on the agent and on another caller. */
export interface FloodSummary extends AnswerSummary {
  /** The peak of resident memory over the peak without a flood, MB. */
  readonly grownMB: number
}

export interface Observed {
  readonly identities: number
  readonly ttlMs: number
  readonly seen: number
  readonly failureCount: number
  readonly failures: readonly string[]
  /** The first certificate of the last name, seconds after the start of the agent; `undefined`: never. */
  readonly allServedAfterS: number | undefined
  /** Renewals of each second since then. */
  readonly renewals: readonly number[]
  readonly leastLeftMs: number | undefined
  readonly attack: boolean
  readonly answers: readonly AnswerSummary[]
  /** Empty without attacks. */
  readonly floods: readonly FloodSummary[]
  readonly samples: readonly Sample[]
}

export interface Check {
  readonly name: string
  /** `undefined`: it cannot be judged. */
  readonly holds: boolean | undefined
  readonly found: string
}

/** The peak second over the mean. */
const MOST_UNEVEN = 3
/** The memory of the last third over the second third's. */
const MOST_GROWTH = 1.1
const SLOWEST_ANSWER_MS = 50
const SLOWEST_IN_FLOOD_MS = 300
const MOST_GROWN_MB = 150
/** Five minutes: a heap that fills up for the first time looks like a leak until then. */
const LEAST_IN_A_THIRD = 30

export function judge(observed: Observed): readonly Check[] {
  const { identities, seen, failureCount, failures, allServedAfterS, leastLeftMs } = observed
  return [
    {
      name: 'every name has a certificate',
      holds: allServedAfterS !== undefined,
      found: allServedAfterS === undefined ? 'not all did' : `${identities} after ${allServedAfterS.toFixed(1)} s`,
    },
    {
      name: 'every secret is good, and each name always has one',
      holds: failureCount === 0 && seen > 0,
      found: [`${seen} secrets, ${failureCount} failures`, ...failures].join('; '),
    },
    {
      name: 'each comes before the last one ends',
      holds: leastLeftMs === undefined ? undefined : leastLeftMs > 0,
      found:
        leastLeftMs === undefined ? 'nothing was renewed' : `at least ${(leastLeftMs / 1_000).toFixed(1)} s before`,
    },
    judgeSpread(observed),
    judgeMemory(observed.samples),
    ...(observed.attack ? [judgeFloods(observed.floods), judgeAnswers(observed.answers)] : []),
  ]
}

/** Judges the renewals after the first lifetime: the very first ones all fall into one window. */
export function judgeSpread({ renewals, ttlMs }: Pick<Observed, 'renewals' | 'ttlMs'>): Check {
  const name = `the highest second has at most ${MOST_UNEVEN} times the mean of renewals`
  const later = renewals.slice(Math.ceil(ttlMs / 1_000))
  const total = later.reduce((a, b) => a + b, 0)
  if (later.length < ttlMs / 1_000 || total === 0)
    return { name, holds: undefined, found: 'too short: it takes two lifetimes' }
  const peak = later.reduce((a, b) => Math.max(a, b))
  const mean = total / later.length
  return {
    name,
    holds: peak <= MOST_UNEVEN * mean,
    found: `${peak} in a second, ${(peak / mean).toFixed(2)} times the mean of ${mean.toFixed(1)}`,
  }
}

/** Judges each attack separately: a mean over all would hide one that works. */
function judgeAnswers(answers: readonly AnswerSummary[]): Check {
  const found = answers.map(
    ({ attack, count, p50Ms, p99Ms, mostMs }) =>
      `${attack}: ${[p50Ms, p99Ms, mostMs].map(ms => ms.toFixed(1)).join(' / ')} ms of ${count}`,
  )
  return {
    name: `under each attack 99 of 100 answers come within ${SLOWEST_ANSWER_MS} ms`,
    holds: answers.length > 0 && answers.every(({ count, p99Ms }) => count > 0 && p99Ms <= SLOWEST_ANSWER_MS),
    found: `p50 / p99 / longest: ${found.join('; ')}`,
  }
}

/** The worst flood decides. */
function judgeFloods(floods: readonly FloodSummary[]): Check {
  const [slowest] = floods.toSorted((a, b) => b.mostMs - a.mostMs)
  const [largest] = floods.toSorted((a, b) => b.grownMB - a.grownMB)
  const name = `25 MB of one caller, in any frames, hold no answer back for ${SLOWEST_IN_FLOOD_MS} ms and take at most ${MOST_GROWN_MB} MB`
  if (!slowest || !largest) return { name, holds: false, found: 'there was no flood' }
  return {
    name,
    holds: slowest.mostMs <= SLOWEST_IN_FLOOD_MS && largest.grownMB <= MOST_GROWN_MB,
    found: `${floods.length} floods; ${slowest.attack}: ${slowest.mostMs.toFixed(0)} ms; ${largest.attack}: ${largest.grownMB.toFixed(0)} MB`,
  }
}

/** Compares the agent's resident memory in the last third with the second. The first is for warming up. */
export function judgeMemory(samples: readonly Sample[]): Check {
  const name = `resident memory of the last third is at most ${MOST_GROWTH} times the second`
  const third = Math.floor(samples.length / 3)
  if (third < LEAST_IN_A_THIRD) return { name, holds: undefined, found: `too short: ${samples.length} samples` }
  const [before, after] = [samples.slice(-2 * third, -third), samples.slice(-third)].map(part =>
    median(part.map(({ residentMB }) => residentMB)),
  ) as [number, number]
  const perHour = slope(samples.slice(-2 * third)) * 3_600
  return {
    name,
    holds: after <= MOST_GROWTH * before,
    found: `${before.toFixed(0)} MB, then ${after.toFixed(0)} MB; a line through both thirds rises by ${perHour.toFixed(1)} MB an hour`,
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/** The slope by least squares, MB a second. */
function slope(samples: readonly Sample[]): number {
  const mean = (read: (sample: Sample) => number) => samples.reduce((sum, one) => sum + read(one), 0) / samples.length
  const [x, y] = [mean(({ second }) => second), mean(({ residentMB }) => residentMB)]
  const covariance = mean(({ second, residentMB }) => (second - x) * (residentMB - y))
  return covariance / mean(({ second }) => (second - x) ** 2)
}

/** One failed check fails the soak; one that cannot be judged does not. */
export function passes(checks: readonly Check[]): boolean {
  return checks.every(({ holds }) => holds !== false)
}

/** How figures grow with identities and with streams: what the plots show. */
import { linePlot, type PlotSeries } from '../plot.ts'
import { writeOutput } from '../report.ts'
import { type Bench, ifPresent } from './bench.ts'
import { coldStart, LAST_SECRET } from './cold-start-row.ts'
import { residentMegabytes } from './memory-rows.ts'
import { CPU as PUSH_CPU, LAST as PUSH_LAST, push } from './push-rows.ts'
import { inRounds, type Measured, median, type Sample, type Side } from './rounds.ts'
import { type CA, type SdsProcess, startCA, startIstioAgent, startLivery, startPromptedLivery } from './servers.ts'
import { cpuPerResponse } from './serving-rows.ts'
import { Workshop } from './workshop.ts'

const IDENTITIES = [100, 1_000, 10_000] as const
const STREAMS = [1, 100, 1_000, 5_000] as const
const HELD = 100
/** Half of them are enough for a plot; one stream alone is slow. */
const responsesOf = (streams: number) => (streams === 1 ? 4_000 : 24_000)
const SETTLE_MS = 3_000
/** Three show the shape; five would be half of a whole run's time. */
const MAX_ROUNDS = 3

const COLD_START = 'cold start, s'
const MEMORY = 'resident memory, MB'
const RESPONSE = 'server CPU per response, µs'
const LAST = 'push to the last stream, ms'
const PUSH = 'server CPU per push, µs'

/** One plot: a measure over a number of things, a line for each program, medians with all their samples. */
export interface Growth {
  readonly file: string
  readonly title: string
  readonly over: 'identities' | 'streams'
  readonly measure: string
  /** Where values spread over powers of ten. A straight line of slope 1 is linear growth. */
  readonly logarithmic: boolean
  readonly series: readonly { readonly name: string; readonly points: readonly GrowthPoint[] }[]
}

export interface GrowthPoint {
  readonly at: number
  readonly samples: readonly number[]
}

export async function measureGrowth(bench: Bench): Promise<Growth[]> {
  return [...(await overIdentities(bench)), ...(await overStreams(bench))]
}

export async function savePlots(folder: URL, growths: readonly Growth[]): Promise<void> {
  for (const growth of growths) await writeOutput(folder, `plots/${growth.file}`, draw(growth))
}

/** What the kernel saw no CPU of is left out. */
export function draw({ title, over, measure, logarithmic, series }: Growth): string {
  const lines = series.map(
    ({ name, points }): PlotSeries => ({
      name,
      points: points.map(({ at, samples }) => [at, median(samples)] as const).filter(([, value]) => value > 0),
      dashed: name !== 'Livery',
    }),
  )
  return linePlot({ title, x: { name: over, log: true }, y: { name: measure, log: logarithmic }, series: lines })
}

async function overIdentities(bench: Bench): Promise<Growth[]> {
  const measure = async (identities: number): Promise<Sample> => {
    const start = await coldStart(bench, identities)
    await using workshop = new Workshop()
    const agent = await startLivery(workshop, await startCA(bench, workshop), identities)
    const streams = Math.min(identities, 100)
    const megabytes = await residentMegabytes(bench, workshop, agent, streams, SETTLE_MS)
    await cpuPerResponse(bench, workshop, agent, streams, responsesOf(streams))
    const cpu = await cpuPerResponse(bench, workshop, agent, streams, responsesOf(streams))
    return { [COLD_START]: start[LAST_SECRET] ?? Number.NaN, [MEMORY]: megabytes, [RESPONSE]: cpu }
  }
  const sides = IDENTITIES.map((at): Side => ({ name: sideName('Livery', at), measure: () => measure(at) }))
  const measured = await inRounds(Math.min(bench.rounds, MAX_ROUNDS), sides, bench.say)
  const growth = (file: string, title: string, name: string, logarithmic = false): Growth => ({
    file,
    title,
    over: 'identities',
    measure: name,
    logarithmic,
    series: [{ name: 'Livery', points: pointsOf(measured, 'Livery', IDENTITIES, name) }],
  })
  return [
    growth('cold-start-by-identities.svg', 'Start of the agent to the last secret, a client each', COLD_START, true),
    growth('memory-by-identities.svg', 'Resident memory, 100 streams open', MEMORY),
    growth('response-by-identities.svg', 'CPU of an SDS response, 100 streams', RESPONSE),
  ]
}

async function overStreams(bench: Bench): Promise<Growth[]> {
  const programs = ['Livery', ...ifPresent(bench, 'sdspeer', () => 'Istio agent')] as const
  const sides = STREAMS.flatMap(at =>
    programs.map((name): Side => ({ name: sideName(name, at), measure: () => measureStreams(bench, name, at) })),
  )
  const measured = await inRounds(Math.min(bench.rounds, MAX_ROUNDS), sides, bench.say)
  const growth = (file: string, title: string, measure: string, logarithmic = false): Growth => ({
    file,
    title,
    over: 'streams',
    measure,
    logarithmic,
    series: programs.map(name => ({ name, points: pointsOf(measured, name, STREAMS, measure) })),
  })
  return [
    growth('response-by-streams.svg', 'CPU of an SDS response', RESPONSE),
    growth('push-last-by-streams.svg', 'Push of a renewed secret, time to the last stream', LAST, true),
    growth('push-cpu-by-streams.svg', 'Push of a renewed secret, CPU of each', PUSH, true),
    growth('memory-by-streams.svg', 'Resident memory with open streams', MEMORY),
  ]
}

async function measureStreams(bench: Bench, program: string, streams: number): Promise<Sample> {
  await using workshop = new Workshop()
  const ca = await startCA(bench, workshop)
  const [server, prompted] = await startServers(bench, workshop, ca, program)
  const megabytes = await residentMegabytes(bench, workshop, server, streams, SETTLE_MS)
  await cpuPerResponse(bench, workshop, server, streams, responsesOf(streams))
  const cpu = await cpuPerResponse(bench, workshop, server, streams, responsesOf(streams))
  const pushed = await push(bench, workshop, prompted, streams, 'USR2')
  return {
    [RESPONSE]: cpu,
    [LAST]: pushed[PUSH_LAST] ?? Number.NaN,
    [PUSH]: pushed[PUSH_CPU] ?? Number.NaN,
    [MEMORY]: megabytes,
  }
}

/** The one that serves, and the one that can be told to push: of Istio's agent one process is both. */
async function startServers(
  bench: Bench,
  workshop: Workshop,
  ca: CA,
  program: string,
): Promise<readonly [SdsProcess, SdsProcess]> {
  if (program === 'Livery')
    return [await startLivery(workshop, ca, HELD), await startPromptedLivery(workshop, ca, { identities: 1, renew: 1 })]
  const agent = await startIstioAgent(bench, workshop, ca)
  return [agent, agent]
}

function pointsOf(measured: Measured, name: string, sizes: readonly number[], measure: string): GrowthPoint[] {
  return sizes.map(at => ({ at, samples: measured(sideName(name, at), measure) }))
}

function sideName(program: string, at: number): string {
  return `${program} at ${at.toLocaleString('en-US')}`
}

/** The growth of figures with identities and with streams, for the plots. */
import { linePlot, type PlotPoint, type PlotSeries } from '../plot.ts'
import { type Machine, tellMachine, writeOutput } from '../report.ts'
import { type Bench, ifPresent } from './bench.ts'
import { coldStart, LAST_SECRET, onConnectionsOfTheirOwn } from './cold-start.ts'
import { residentMegabytes } from './memory-rows.ts'
import { CPU as PUSH_CPU, LAST as PUSH_LAST, push } from './push-rows.ts'
import { inRounds, type Measured, median, type Sample, type Side } from './rounds.ts'
import { type CA, type SdsProcess, startCA, startIstioAgent, startLivery, startPromptedLivery } from './servers.ts'
import { cpuPerResponse } from './serving-rows.ts'
import { Workdir } from './workdir.ts'

const IDENTITIES = [100, 1_000, 10_000] as const
const STREAMS = [1, 100, 1_000, 5_000] as const
const HELD = 100
/** Half of the responses are enough for a plot; one stream alone is slow. */
const responsesOf = (streams: number) => (streams === 1 ? 4_000 : 24_000)
const SETTLE_MS = 3_000
/** Three rounds show the shape; five would take half of a whole run's time. */
const MAX_ROUNDS = 3

const COLD_START = 'cold start, s'
const MEMORY = 'resident memory, MB'
const RESPONSE = 'server CPU per response, µs'
const LAST = 'push to the last stream, ms'
const PUSH = 'server CPU per push, µs'

const HOLDERS = 'Livery holds 100 identities, an Istio agent one'
const EACH_OWN = 'each stream on a separate connection'
/** File, title, and the conditions of the measurement. */
const PLOTS = {
  coldStartByIdentities: [
    'cold-start-by-identities.svg',
    'Cold start by identities',
    'From the start of the agent to the last secret, a client and a connection for each identity',
  ],
  memoryByIdentities: [
    'memory-by-identities.svg',
    'Resident memory by identities',
    '24 h certificates, 100 open streams, each on a separate connection, after 3 s',
  ],
  responseByIdentities: [
    'response-by-identities.svg',
    'CPU of an SDS response by identities',
    'User and system time of the server, 100 streams, each on a separate connection',
  ],
  responseByStreams: [
    'response-by-streams.svg',
    'CPU of an SDS response by streams',
    `User and system time of the server, ${EACH_OWN}. ${HOLDERS}`,
  ],
  pushLastByStreams: [
    'push-last-by-streams.svg',
    'Time of a push by streams',
    `From the signal to the last of the streams of one certificate, ${EACH_OWN}. Livery renews the certificate, Istio's agent sends the one it has`,
  ],
  pushCpuByStreams: [
    'push-cpu-by-streams.svg',
    'CPU of a push by streams',
    `User and system time of the server for each stream of one certificate. Livery renews it, Istio's agent sends the one it has`,
  ],
  memoryByStreams: [
    'memory-by-streams.svg',
    'Resident memory by streams',
    `One process, ${EACH_OWN}, after 3 s. ${HOLDERS}`,
  ],
} as const

/** One plot: a measure over a number of things, a line for each program, medians with all samples. */
export interface Growth {
  readonly file: string
  readonly title: string
  readonly conditions: string
  readonly over: 'identities' | 'streams'
  readonly measure: string
  /** Set for values over powers of ten. A straight line of slope 1 is linear growth. */
  readonly logarithmic: boolean
  readonly series: readonly { readonly name: string; readonly points: readonly GrowthPoint[] }[]
}

interface GrowthPoint {
  readonly at: number
  readonly samples: readonly number[]
}

export async function measureGrowth(bench: Bench): Promise<Growth[]> {
  return [...(await overIdentities(bench)), ...(await overStreams(bench))]
}

export async function savePlots(folder: URL, machine: Machine, growths: readonly Growth[]): Promise<void> {
  for (const growth of growths) await writeOutput(folder, `plots/${growth.file}`, draw(machine, growth))
}

/** Leaves out a sample in which the kernel saw no CPU. */
function draw(machine: Machine, { title, conditions, over, measure, logarithmic, series }: Growth): string {
  const lines = series.map(
    ({ name, points }): PlotSeries => ({
      name,
      points: points.flatMap(each => pointOf(each)),
      ...(name !== 'Livery' && { line: 'dashed' }),
    }),
  )
  const rounds = Math.max(...series.flatMap(({ points }) => points.map(({ samples }) => samples.length)))
  return linePlot({
    title,
    conditions: `${conditions}. Median of ${rounds} rounds; strokes: lowest to highest. ${tellMachine(machine)}`,
    x: { name: over, log: true },
    y: { name: measure, log: logarithmic },
    series: lines,
  })
}

function pointOf({ at, samples }: GrowthPoint): readonly PlotPoint[] {
  const seen = samples.filter(sample => sample > 0)
  return median(samples) > 0 ? [[at, median(samples), Math.min(...seen), Math.max(...seen)]] : []
}

async function overIdentities(bench: Bench): Promise<Growth[]> {
  const measure = async (identities: number): Promise<Sample> => {
    const start = await coldStart(bench, identities, onConnectionsOfTheirOwn)
    await using workdir = new Workdir()
    const agent = await startLivery(workdir, await startCA(bench, workdir), identities)
    const streams = Math.min(identities, 100)
    const megabytes = await residentMegabytes(bench, workdir, agent, streams, SETTLE_MS)
    await cpuPerResponse(bench, workdir, agent, streams, { responses: responsesOf(streams) })
    const cpu = await cpuPerResponse(bench, workdir, agent, streams, { responses: responsesOf(streams) })
    return { [COLD_START]: start[LAST_SECRET] ?? Number.NaN, [MEMORY]: megabytes, [RESPONSE]: cpu }
  }
  const sides = IDENTITIES.map((at): Side => ({ name: sideName('Livery', at), measure: () => measure(at) }))
  const measured = await inRounds(Math.min(bench.rounds, MAX_ROUNDS), sides, bench.say)
  const growth = (
    [file, title, conditions]: readonly [string, string, string],
    name: string,
    logarithmic = false,
  ): Growth => ({
    file,
    title,
    conditions,
    over: 'identities',
    measure: name,
    logarithmic,
    series: [{ name: 'Livery', points: pointsOf(measured, 'Livery', IDENTITIES, name) }],
  })
  return [
    growth(PLOTS.coldStartByIdentities, COLD_START, true),
    growth(PLOTS.memoryByIdentities, MEMORY),
    growth(PLOTS.responseByIdentities, RESPONSE),
  ]
}

async function overStreams(bench: Bench): Promise<Growth[]> {
  const programs = ['Livery', ...ifPresent(bench, 'sdspeer', () => 'Istio agent')] as const
  const sides = STREAMS.flatMap(at =>
    programs.map((name): Side => ({ name: sideName(name, at), measure: () => measureStreams(bench, name, at) })),
  )
  const measured = await inRounds(Math.min(bench.rounds, MAX_ROUNDS), sides, bench.say)
  const growth = (
    [file, title, conditions]: readonly [string, string, string],
    measure: string,
    logarithmic = false,
  ): Growth => ({
    file,
    title,
    conditions,
    over: 'streams',
    measure,
    logarithmic,
    series: programs.map(name => ({ name, points: pointsOf(measured, name, STREAMS, measure) })),
  })
  return [
    growth(PLOTS.responseByStreams, RESPONSE),
    growth(PLOTS.pushLastByStreams, LAST, true),
    growth(PLOTS.pushCpuByStreams, PUSH, true),
    growth(PLOTS.memoryByStreams, MEMORY),
  ]
}

async function measureStreams(bench: Bench, program: string, streams: number): Promise<Sample> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  const [server, prompted] = await startServers(bench, workdir, ca, program)
  const megabytes = await residentMegabytes(bench, workdir, server, streams, SETTLE_MS)
  await cpuPerResponse(bench, workdir, server, streams, { responses: responsesOf(streams) })
  const cpu = await cpuPerResponse(bench, workdir, server, streams, { responses: responsesOf(streams) })
  const pushed = await push(bench, workdir, prompted, streams, 'USR2')
  return {
    [RESPONSE]: cpu,
    [LAST]: pushed[PUSH_LAST] ?? Number.NaN,
    [PUSH]: pushed[PUSH_CPU] ?? Number.NaN,
    [MEMORY]: megabytes,
  }
}

/** The server, and the server that pushes on a signal: Istio's agent is both in one process. */
async function startServers(
  bench: Bench,
  workdir: Workdir,
  ca: CA,
  program: string,
): Promise<readonly [SdsProcess, SdsProcess]> {
  if (program === 'Livery')
    return [await startLivery(workdir, ca, HELD), await startPromptedLivery(workdir, ca, { identities: 1, renew: 1 })]
  const agent = await startIstioAgent(bench, workdir, ca)
  return [agent, agent]
}

function pointsOf(measured: Measured, name: string, sizes: readonly number[], measure: string): GrowthPoint[] {
  return sizes.map(at => ({ at, samples: measured(sideName(name, at), measure) }))
}

function sideName(program: string, at: number): string {
  return `${program} at ${at.toLocaleString('en-US')}`
}

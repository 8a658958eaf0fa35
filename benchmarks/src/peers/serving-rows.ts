/** The cost of an answer: clients ask again and again on open streams, and the kernel reports the server's CPU. */
import { type Bench, ifPresent, type Row } from './bench.ts'
import type { Comparison } from './comparison.ts'
import { inRounds, type Side } from './rounds.ts'
import { clientsOf, cpuEach, sdsload } from './sdsload.ts'
import { type SdsProcess, startCA, startIstioAgent, startLivery } from './servers.ts'
import { Workdir } from './workdir.ts'

const CPU = 'CPU µs per response'
const STREAMS = [16, 128] as const
/** 48,000 answers of 30 µs take a second and a half of CPU, which the kernel counts in steps of 10 ms. */
const RESPONSES = 48_000
const FEW = 100
const MANY = 10_000

export const servingRows: readonly Row[] = [
  { name: 'serving', needs: ['neutralca', 'sdsload'], against: ['sdspeer'], measure: measureServing },
  { name: 'serving-leaves', needs: ['neutralca', 'sdsload'], against: ['sdspeer'], measure: measureLeaves },
  { name: 'serving-held', needs: ['neutralca', 'sdsload'], measure: measureHeld },
]

interface Asked {
  readonly responses?: number
  /** Name of the roots; '' asks for certificates alone. */
  readonly root?: string
}

/** The server's CPU for an answer with a certificate and the roots, microseconds. */
export async function cpuPerResponse(
  bench: Bench,
  workdir: Workdir,
  server: SdsProcess,
  streams: number,
  { responses = RESPONSES, ...asked }: Asked = {},
): Promise<number> {
  const options = { ...clientsOf(server, streams), ...asked, fetch: 'resub', refetch: Math.ceil(responses / streams) }
  const { warm } = await sdsload(bench, workdir, options)
  return cpuEach(warm)
}

function measureServing(bench: Bench): Promise<Comparison[]> {
  return againstIstio(bench, STREAMS, {}, streams => ({
    row: 'serving',
    work: `SDS response, ${streams} streams: server CPU`,
    target: { of: 'ratio', is: 'at most', value: 0.5 },
  }))
}

/** The roots' bytes are ready, since every stream shares them; no stream shares a certificate and its key. */
function measureLeaves(bench: Bench): Promise<Comparison[]> {
  return againstIstio(bench, [128], { root: '' }, streams => ({
    row: 'serving-leaves',
    work: `SDS response without roots, ${streams} streams: server CPU`,
    target: { of: 'ratio', is: 'at most', value: 0.6 },
  }))
}

async function againstIstio(
  bench: Bench,
  streamCounts: readonly number[],
  asked: Asked,
  row: (streams: number) => Pick<Comparison, 'row' | 'work' | 'target'>,
): Promise<Comparison[]> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  const servers = new Map([['Livery', await startLivery(workdir, ca, Math.max(FEW, ...streamCounts))]])
  for (const side of ifPresent(bench, 'sdspeer', () => 'Istio agent'))
    servers.set(side, await startIstioAgent(bench, workdir, ca))
  const measured = await inServers(bench, workdir, servers, streamCounts, asked)
  return streamCounts.map(streams => ({
    ...row(streams),
    unit: 'µs',
    ours: measured(`Livery, ${streams} streams`, CPU),
    ...(servers.has('Istio agent') && {
      peer: { name: 'Istio agent', samples: measured(`Istio agent, ${streams} streams`, CPU) },
    }),
  }))
}

async function measureHeld(bench: Bench): Promise<Comparison[]> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  bench.say(`Livery fetches ${MANY} identities`)
  const servers = new Map([
    ['many', await startLivery(workdir, ca, MANY)],
    ['few', await startLivery(workdir, ca, FEW)],
  ])
  const measured = await inServers(bench, workdir, servers)
  return STREAMS.map(streams => ({
    row: 'serving-held',
    work: `the same, ${streams} streams, with 10,000 identities held`,
    unit: 'µs',
    ours: measured(`many, ${streams} streams`, CPU),
    peer: { name: 'itself with 100', samples: measured(`few, ${streams} streams`, CPU) },
    target: { of: 'ratio', is: 'at most', value: 1.2 },
  }))
}

/** Runs every server with every number of streams, after a sample each to warm up. */
async function inServers(
  bench: Bench,
  workdir: Workdir,
  servers: ReadonlyMap<string, SdsProcess>,
  streamCounts: readonly number[] = STREAMS,
  asked: Asked = {},
) {
  for (const streams of streamCounts)
    for (const server of servers.values()) await cpuPerResponse(bench, workdir, server, streams, asked)
  const sides = streamCounts.flatMap(streams =>
    [...servers].map(
      ([name, server]): Side => ({
        name: `${name}, ${streams} streams`,
        measure: async () => ({ [CPU]: await cpuPerResponse(bench, workdir, server, streams, asked) }),
      }),
    ),
  )
  return inRounds(bench.rounds, sides, bench.say)
}

/** The cost of an answer: clients ask again and again on open streams, and the server's CPU is read from the kernel. */
import { type Bench, ifPresent, type Row } from './bench.ts'
import type { Comparison } from './comparison.ts'
import { inRounds, type Side } from './rounds.ts'
import { clientsOf, cpuEach, sdsload } from './sdsload.ts'
import { type SdsProcess, startCA, startIstioAgent, startLivery } from './servers.ts'
import { Workdir } from './workdir.ts'

const CPU = 'CPU µs per response'
const STREAMS = [16, 128] as const
/** At 30 µs each, a second and a half of CPU, which the kernel counts in steps of 10 ms. */
const RESPONSES = 48_000
const FEW = 100
const MANY = 10_000

export const servingRows: readonly Row[] = [
  { name: 'serving', needs: ['neutralca', 'sdsload'], against: ['sdspeer'], measure: measureServing },
  { name: 'serving-held', needs: ['neutralca', 'sdsload'], measure: measureHeld },
]

/** Microseconds of the server's CPU for an answer with a certificate and the roots. */
export async function cpuPerResponse(
  bench: Bench,
  workdir: Workdir,
  server: SdsProcess,
  streams: number,
  responses = RESPONSES,
): Promise<number> {
  const options = { ...clientsOf(server, streams), fetch: 'resub', refetch: Math.ceil(responses / streams) }
  const { warm } = await sdsload(bench, workdir, options)
  return cpuEach(warm)
}

async function measureServing(bench: Bench): Promise<Comparison[]> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  const servers = new Map([['Livery', await startLivery(workdir, ca, FEW)]])
  for (const side of ifPresent(bench, 'sdspeer', () => 'Istio agent'))
    servers.set(side, await startIstioAgent(bench, workdir, ca))
  const measured = await inServers(bench, workdir, servers)
  return STREAMS.map(streams => ({
    row: 'serving',
    work: `SDS response, ${streams} streams: server CPU`,
    unit: 'µs',
    ours: measured(`Livery, ${streams} streams`, CPU),
    ...(servers.has('Istio agent') && {
      peer: { name: 'Istio agent', samples: measured(`Istio agent, ${streams} streams`, CPU) },
    }),
    target: { of: 'ratio', is: 'at most', value: 0.5 },
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

/** Every server with every number of streams, after each was asked once so to warm up. */
async function inServers(bench: Bench, workdir: Workdir, servers: ReadonlyMap<string, SdsProcess>) {
  for (const streams of STREAMS)
    for (const server of servers.values()) await cpuPerResponse(bench, workdir, server, streams)
  const sides = STREAMS.flatMap(streams =>
    [...servers].map(
      ([name, server]): Side => ({
        name: `${name}, ${streams} streams`,
        measure: async () => ({ [CPU]: await cpuPerResponse(bench, workdir, server, streams) }),
      }),
    ),
  )
  return inRounds(bench.rounds, sides, bench.say)
}

/** The agent's memory: the total with open streams, and the cost of one more idle identity. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Bench, ifPresent, type Row } from './bench.ts'
import type { Comparison } from './comparison.ts'
import { residentBytes } from './proc.ts'
import { inRounds, type Sample, type Side } from './rounds.ts'
import { clientsOf, reported, sdsload } from './sdsload.ts'
import { type SdsProcess, startCA, startIstioAgent, startLivery, startPromptedLivery } from './servers.ts'
import { Workdir } from './workdir.ts'

const MEGABYTES = 'MB resident'
const RESIDENT = 'resident bytes'
const HEAP = 'heap bytes'
const IDENTITIES = 10_000
const FEWER = 2_000
const STREAMS = 1_000
/** A few of Istio's agents show what a thousand hold: they are alike, and share the pages of their program. */
const ISTIO_AGENTS = 5
/** The garbage of the start is collected by then. */
const SETTLE_MS = 15_000

export const memoryRows: readonly Row[] = [
  { name: 'memory', needs: ['neutralca', 'sdsload'], against: ['sdspeer'], measure: measureMemory },
  { name: 'memory-idle', needs: ['neutralca'], measure: measureIdle },
]

/** Resident megabytes (10⁶ bytes) with `streams` open streams, each on a separate connection, after a while. */
export async function residentMegabytes(
  bench: Bench,
  workdir: Workdir,
  server: SdsProcess,
  streams: number,
  settleMs = SETTLE_MS,
): Promise<number> {
  return megabytes((await memory(bench, workdir, server, streams, settleMs)).rss)
}

async function memory(bench: Bench, workdir: Workdir, server: SdsProcess, streams: number, settleMs: number) {
  const { watch } = await sdsload(bench, workdir, { ...clientsOf(server, streams), watch: `${settleMs}ms` })
  return reported(watch?.server_mem_kb, 'the memory of the server')
}

function megabytes(kilobytes: number): number {
  return (kilobytes * 1024) / 1e6
}

async function measureMemory(bench: Bench): Promise<Comparison[]> {
  const livery: Side = {
    name: 'Livery',
    measure: async () => {
      await using workdir = new Workdir()
      const ca = await startCA(bench, workdir)
      const agent = await startLivery(workdir, ca, IDENTITIES)
      return { [MEGABYTES]: await residentMegabytes(bench, workdir, agent, STREAMS) }
    },
  }
  const istio = ifPresent(bench, 'sdspeer', () => ({ name: 'Istio agents', measure: () => measureIstioAgents(bench) }))
  const measured = await inRounds(bench.rounds, [livery, ...istio], bench.say)
  return [
    {
      row: 'memory',
      work: 'resident memory, 10,000 identities, 15 s after 1,000 streams opened',
      unit: 'MB',
      ours: measured('Livery', MEGABYTES),
      ...(istio.length > 0 && {
        peer: {
          name: `1,000 Istio agents (reckoned from ${ISTIO_AGENTS})`,
          samples: measured('Istio agents', MEGABYTES),
        },
      }),
      target: { of: 'ours', is: 'at most', value: 350 },
    },
  ]
}

async function measureIstioAgents(bench: Bench): Promise<Sample> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  let own = 0
  let shared = 0
  for (let index = 0; index < ISTIO_AGENTS; index++) {
    const agent = await startIstioAgent(bench, workdir, ca, `istio-${index}`)
    const { rss, anon } = await memory(bench, workdir, agent, 1, SETTLE_MS / ISTIO_AGENTS)
    own += anon
    shared = rss - anon
  }
  return { [MEGABYTES]: megabytes((own * STREAMS) / ISTIO_AGENTS + shared) }
}

async function measureIdle(bench: Bench): Promise<Comparison[]> {
  const sides = [IDENTITIES, FEWER].map(
    (identities): Side => ({ name: `${identities}`, measure: () => measureHolder(bench, identities) }),
  )
  const measured = await inRounds(bench.rounds, sides, bench.say)
  const kilobytesEach = (measure: string) =>
    measured(`${IDENTITIES}`, measure).map((bytes, round) => {
      const fewer = measured(`${FEWER}`, measure)[round] ?? Number.NaN
      return (bytes - fewer) / (IDENTITIES - FEWER) / 1_000
    })
  const work = 'one more idle identity (of 10,000 against 2,000)'
  const target = { of: 'ours', is: 'at most', value: 12 } as const
  return [
    { row: 'memory-idle', work: `${work}: resident memory`, unit: 'KB', ours: kilobytesEach(RESIDENT), target },
    { row: 'memory-idle', work: `${work}: heap and buffers`, unit: 'KB', ours: kilobytesEach(HEAP) },
  ]
}

/** Resident memory is the running agent's; the heap is measured on its parts after a full collection, which no program offers. */
async function measureHolder(bench: Bench, identities: number): Promise<Sample> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  const agent = await startLivery(workdir, ca, identities)
  await sleep(SETTLE_MS)
  const resident = await residentBytes(agent.server.pid)
  const { server } = await startPromptedLivery(workdir, ca, { identities, renew: 0 })
  await sleep(SETTLE_MS / 3)
  process.kill(server.pid, 'SIGHUP')
  for (;;) {
    const heap = /^HEAP (\d+)$/m.exec(server.output())?.[1]
    if (heap !== undefined) return { [RESIDENT]: resident, [HEAP]: Number(heap) }
    await sleep(100)
  }
}

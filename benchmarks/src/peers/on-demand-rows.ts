/** Identities that no list names: one connection asks for all of them at once, as an Envoy with many tenants does after its start. */
import type { Bench, Row } from './bench.ts'
import { onConnections } from './cold-start.ts'
import type { Comparison } from './comparison.ts'
import { inRounds, type Side } from './rounds.ts'
import { reported, sdsload } from './sdsload.ts'
import { startCA, startLivery } from './servers.ts'
import { Workdir } from './workdir.ts'

const COUNTS = [1_000, 5_000] as const
const FIGURES = [
  { measure: 'p50', what: 'asked to sent, p50', unit: 'ms' },
  { measure: 'p99', what: 'asked to sent, p99', unit: 'ms' },
  { measure: 'cpu', what: "agent's CPU per identity", unit: 'ms' },
] as const

export const onDemandRows: readonly Row[] = [{ name: 'on-demand', needs: ['neutralca', 'sdsload'], measure }]

async function measure(bench: Bench): Promise<Comparison[]> {
  const sides = COUNTS.map((count): Side => ({ name: `${count}`, measure: () => askFor(bench, count) }))
  const measured = await inRounds(bench.rounds, sides, bench.say)
  return COUNTS.flatMap(count =>
    FIGURES.map(({ measure, what, unit }) => ({
      row: 'on-demand',
      work: `${count.toLocaleString('en-US')} identities on demand, a stream each, one connection: ${what}`,
      unit,
      ours: measured(`${count}`, measure),
    })),
  )
}

async function askFor(bench: Bench, count: number) {
  await using workdir = new Workdir()
  const { server, socket } = await startLivery(workdir, await startCA(bench, workdir), 1)
  const { cold } = await sdsload(bench, workdir, { uds: socket, 'server-pid': server.pid, ...onConnections(1)(count) })
  const { p50, p99 } = reported(cold?.latency_ms, 'the time from request to certificate')
  return { p50, p99, cpu: (reported(cold?.server_cpu_s, "the agent's CPU time") * 1_000) / count }
}

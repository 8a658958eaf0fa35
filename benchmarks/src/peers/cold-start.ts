/** One cold start of an agent: from its start to the last secret at the last client, with the CA on the same cores. */
import type { Bench } from './bench.ts'
import { pathOf } from './programs.ts'
import type { Sample } from './rounds.ts'
import { type LoadOptions, reported, sdsload } from './sdsload.ts'
import { LOAD_IDENTITY, startCA, writeLiveryFiles } from './servers.ts'
import type { SpireAgent } from './spire.ts'
import { Workdir } from './workdir.ts'

export const LAST_SECRET = 's to the last secret'
/** The agent's user and system time, every thread, from its start to the last secret. */
export const CPU = 'CPU ms an identity'
/** The same without what it had used when its socket, with as many identities configured, accepted a connection. */
export const CPU_AFTER_START = 'CPU ms an identity after the start'
/** VmHWM of the agent. */
export const PEAK = 'MB at most'
export const P50 = 'ms from asked to sent, p50'
export const P99 = 'ms from asked to sent, p99'

/** The client's options for a number of identities. */
export type Asking = (identities: number) => LoadOptions

/** Opens a stream for each identity. */
export const onConnections =
  (connections: number): Asking =>
  identities => ({
    clients: identities,
    'per-conn': Math.ceil(identities / connections),
    names: LOAD_IDENTITY,
    san: LOAD_IDENTITY,
  })

/** Opens a stream and a connection for each identity. */
export const onConnectionsOfTheirOwn: Asking = identities => onConnections(identities)(identities)

/** Names are written out, since the client's `{i}` is the same for all names of a stream; SANs are not compared. */
export const onOneStream: Asking = identities => ({
  clients: 1,
  names: Array.from({ length: identities }, (_, index) => LOAD_IDENTITY.replace('{i}', `${index}`)).join(','),
})

/** `copy`: the working copy of the agent; default: this one. */
export async function coldStart(bench: Bench, identities: number, asking: Asking, copy?: string): Promise<Sample> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  const { config, socket } = await writeLiveryFiles(workdir, ca, identities, copy)
  return await startAndAsk(
    bench,
    workdir,
    { spawn: `./livery run --config ${config}`, uds: socket },
    identities,
    asking,
  )
}

/** Uses one stream, as SPIRE's cache holds a thousand. */
export async function spireColdStart(
  bench: Bench,
  { workdir, command, socket, identities }: SpireAgent,
): Promise<Sample> {
  return startAndAsk(bench, workdir, { spawn: command, uds: socket }, identities, onOneStream)
}

/** ztunnel's manager has no socket: the program asks itself, for all at once. */
export async function ztunnelColdStart(bench: Bench, identities: number, options: readonly string[]): Promise<Sample> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  const args = [ca.address, ca.root, LOAD_IDENTITY, `${identities}`, ...options]
  const started = performance.now()
  const { stdout, cpuSeconds } = await workdir.run(pathOf(bench.programs, 'ztunnel-manager'), args)
  const seconds = (performance.now() - started) / 1_000
  const { p50_ms: p50, p99_ms: p99, peak_rss_kb: peak } = JSON.parse(stdout)
  return {
    [LAST_SECRET]: seconds,
    [CPU]: (cpuSeconds * 1_000) / identities,
    [PEAK]: megabytes(peak),
    [P50]: p50,
    [P99]: p99,
  }
}

/** The client starts the agent, waits for its socket, and asks for every identity. */
async function startAndAsk(
  bench: Bench,
  workdir: Workdir,
  agent: { readonly spawn: string; readonly uds: string },
  identities: number,
  asking: Asking,
): Promise<Sample> {
  const { spawn, cold } = await sdsload(bench, workdir, { ...agent, ...asking(identities) })
  const waited = reported(cold?.latency_ms, 'the time from request to certificate')
  const eachMs = (seconds: number | undefined) => (reported(seconds, "the agent's CPU time") * 1_000) / identities
  return {
    [LAST_SECRET]: reported(spawn?.start_to_secrets_ms?.max, 'the time to the last secret') / 1_000,
    [CPU]: eachMs(spawn?.server_cpu_s),
    [CPU_AFTER_START]: eachMs(cold?.server_cpu_s),
    [PEAK]: megabytes(reported(cold?.server_mem_kb, "the agent's memory").peak),
    [P50]: waited.p50,
    [P99]: waited.p99,
  }
}

function megabytes(kilobytes: number): number {
  return (kilobytes * 1024) / 1e6
}

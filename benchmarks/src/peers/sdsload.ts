/** The SDS load client, the same one for every server: it checks each secret that it gets, and reports what it saw as JSON. */
import type { Bench } from './bench.ts'
import { pathOf } from './programs.ts'
import type { SdsProcess } from './servers.ts'
import type { Workdir } from './workdir.ts'

interface Distribution {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** A phase as the client reports it; server figures are those of the process given as `serverPid`. */
export interface LoadPhase {
  /** Clients answered, fetches or pushes. */
  readonly count: number
  /** In the cold phase: from a client's first request to each of its certificates. */
  readonly latency_ms?: Distribution
  readonly server_cpu_s?: number
  readonly server_cpu_us_each?: number
  /** Resident in all, without the pages of files, which the kernel holds once for every process, and the most so far. */
  readonly server_mem_kb?: { readonly rss: number; readonly anon: number; readonly peak: number }
  /** Pushes of one content, in the order of their coming. */
  readonly waves?: readonly { readonly deliveries: number; readonly from_trigger_ms?: Distribution }[]
}

interface LoadReport {
  readonly cold?: LoadPhase
  readonly warm?: LoadPhase
  readonly watch?: LoadPhase
  readonly spawn?: {
    readonly start_to_socket_ms?: Distribution
    readonly start_to_secrets_ms?: Distribution
    /** From the start of the server to the last secret. */
    readonly server_cpu_s: number
  }
}

/** Its options by their names there. */
export type LoadOptions = Readonly<Record<string, string | number>>

/** Runs it in the workdir's folder. Rejects when a single secret was wrong or did not come. */
export async function sdsload({ programs }: Bench, workdir: Workdir, options: LoadOptions): Promise<LoadReport> {
  const args = Object.entries({ timeout: '120s', ...options }).map(([name, value]) => `--${name}=${value}`)
  const { stdout } = await workdir.run(pathOf(programs, 'sdsload'), args)
  return JSON.parse(stdout)
}

/** Clients of one server, each on a connection of its own, asking for one identity each as long as there are enough. */
export function clientsOf({ server, socket, secret, san, identities }: SdsProcess, clients: number): LoadOptions {
  return {
    uds: socket,
    clients,
    identities: Math.min(clients, identities),
    names: secret,
    san,
    'server-pid': server.pid,
  }
}

/** Microseconds of the server for each of what the phase counted; left out by the client where the kernel saw none. */
export function cpuEach(phase: LoadPhase | undefined): number {
  if (!phase) throw new Error('sdsload left out a phase that it was asked for')
  return phase.server_cpu_us_each ?? 0
}

/** A figure that the client reports for every server that runs on this machine. */
export function reported<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new Error(`sdsload did not report ${name}`)
  return value
}

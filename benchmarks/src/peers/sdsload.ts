/** The SDS load client, the same for every server: it checks each secret, and reports its findings as JSON. */
import type { Bench } from './bench.ts'
import { pathOf } from './programs.ts'
import type { SdsProcess } from './servers.ts'
import type { Workdir } from './workdir.ts'

interface Distribution {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** A phase as the client reports it; the server's figures belong to the process given as `serverPid`. */
export interface LoadPhase {
  /** Clients answered, fetches or pushes. */
  readonly count: number
  /** The cold phase counts from a client's first request to each of its certificates. */
  readonly latency_ms?: Distribution
  readonly server_cpu_s?: number
  readonly server_cpu_us_each?: number
  /** All resident memory; without the pages of files, which the kernel holds once for every process; and the peak so far. */
  readonly server_mem_kb?: { readonly rss: number; readonly anon: number; readonly peak: number }
  /** Pushes of one content, in the order of arrival. */
  readonly waves?: readonly { readonly deliveries: number; readonly from_trigger_ms?: Distribution }[]
}

interface LoadReport {
  readonly cold?: LoadPhase
  readonly warm?: LoadPhase
  readonly watch?: LoadPhase
  readonly spawn?: {
    readonly start_to_socket_ms?: Distribution
    readonly start_to_secrets_ms?: Distribution
    /** Counted from the start of the server to the last secret. */
    readonly server_cpu_s: number
  }
}

/** The client's options by their own names. */
export type LoadOptions = Readonly<Record<string, string | number>>

/** Runs the client in the workdir's folder. Rejects if any secret was wrong or missing. */
export async function sdsload({ programs }: Bench, workdir: Workdir, options: LoadOptions): Promise<LoadReport> {
  const args = Object.entries({ timeout: '120s', ...options }).map(([name, value]) => `--${name}=${value}`)
  const { stdout } = await workdir.run(pathOf(programs, 'sdsload'), args)
  return JSON.parse(stdout)
}

/** Clients of one server, each on a separate connection and with one identity as long as there are enough. */
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

/** The server's microseconds for each item that the phase counted; the client leaves them out if the kernel saw none. */
export function cpuEach(phase: LoadPhase | undefined): number {
  if (!phase) throw new Error('sdsload left out a phase that it was asked for')
  return phase.server_cpu_us_each ?? 0
}

/** A figure that the client reports for every server that runs on this machine. */
export function reported<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new Error(`sdsload did not report ${name}`)
  return value
}

/** SPIRE as a peer: a server with an entry for each identity, and an agent that it already knows, to start again and again. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '@livery/test-support'
import type { Bench } from './bench.ts'
import { accepts } from './listeners.ts'
import { pathOf } from './programs.ts'
import { LOAD_IDENTITY } from './servers.ts'
import type { Workdir } from './workdir.ts'

/** Secret names are the same as Livery's, and keys are ECDSA P-256; the agent sends roots as a plain list on request. */
export interface SpireAgent {
  readonly workdir: Workdir
  /** The command that starts the agent. */
  readonly command: string
  readonly socket: string
  readonly identities: number
}

/** The server reads its entries each second. */
const ENTRIES_SEEN_MS = 3_000

/**
 * Starts the server, which signs itself and as fast as it can, and attests the agent once, so that the agent's later
 * starts only fetch certificates. Every workload of this user gets all identities.
 */
export async function startSpire({ programs }: Bench, workdir: Workdir, identities: number): Promise<SpireAgent> {
  const server = pathOf(programs, 'spire-server')
  const [api, socket, port] = [join(workdir.folder, 'api.sock'), join(workdir.folder, 'agent.sock'), await freePort()]
  await writeFile(join(workdir.folder, 'server.conf'), serverConfig(workdir.folder, api, port))
  await workdir.start(server, ['run', '-config', 'server.conf'], () => accepts(api))
  const { stdout } = await workdir.run(server, ['token', 'generate', '-socketPath', api])
  const token = /^Token: (\S+)$/m.exec(stdout)?.[1]
  if (token === undefined) throw new Error(`spire-server made no join token: ${stdout}`)
  await writeFile(join(workdir.folder, 'entries.json'), entries(token, identities))
  await workdir.run(server, ['entry', 'create', '-data', 'entries.json', '-socketPath', api])
  await sleep(ENTRIES_SEEN_MS)
  await writeFile(join(workdir.folder, 'agent.conf'), agentConfig(workdir.folder, socket, port))
  const agent = pathOf(programs, 'spire-agent')
  const run = ['run', '-config', 'agent.conf']
  const attested = await workdir.start(agent, [...run, '-joinToken', token], () => accepts(socket))
  await workdir.stop(attested.server)
  return { workdir, command: [agent, ...run].join(' '), socket, identities }
}

function serverConfig(folder: string, socket: string, port: number): string {
  return `server {
  bind_address = "127.0.0.1"
  bind_port = "${port}"
  socket_path = "${socket}"
  trust_domain = "cluster.local"
  data_dir = "${folder}/server"
  log_level = "WARN"
  ca_ttl = "168h"
  default_x509_svid_ttl = "24h"
  ratelimit { signing = false }
  experimental { cache_reload_interval = "1s" }
}
plugins {
  DataStore "sql" { plugin_data { database_type = "sqlite3", connection_string = "${folder}/server.sqlite3" } }
  KeyManager "memory" { plugin_data {} }
  NodeAttestor "join_token" { plugin_data {} }
}
`
}

function agentConfig(folder: string, socket: string, port: number): string {
  return `agent {
  server_address = "127.0.0.1"
  server_port = "${port}"
  socket_path = "${socket}"
  trust_domain = "cluster.local"
  data_dir = "${folder}/agent"
  log_level = "WARN"
  insecure_bootstrap = true
  sds { disable_spiffe_cert_validation = true }
}
plugins {
  KeyManager "disk" { plugin_data { directory = "${folder}/agent" } }
  NodeAttestor "join_token" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data {} }
}
`
}

function entries(token: string, identities: number): string {
  const selectors = [{ type: 'unix', value: `uid:${process.getuid?.()}` }]
  const list = Array.from({ length: identities }, (_, index) => ({
    selectors,
    spiffe_id: LOAD_IDENTITY.replace('{i}', `${index}`),
    parent_id: `spiffe://cluster.local/spire/agent/join_token/${token}`,
  }))
  return JSON.stringify({ entries: list })
}

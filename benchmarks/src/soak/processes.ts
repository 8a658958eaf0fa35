/** The agent as its users start it, and a CA in another process. */
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { residentBytes } from '../peers/proc.ts'
import { findPrograms, pathOf } from '../peers/programs.ts'
import type { Running, Workshop } from '../peers/workshop.ts'
import type { SoakOptions } from './options.ts'

const LIVERY = fileURLToPath(new URL('../../../packages/agent/bin/livery.js', import.meta.url))
const AGENT = 'spiffe://cluster.local/ns/livery/sa/node'
const NAMESPACE = 'spiffe://cluster.local/ns/soak/sa'

export interface CAProcess {
  readonly pid: number
  /** The part `ca` of the agent's configuration. */
  readonly config: object
}

export interface AgentProcess {
  readonly pid: number
  readonly socket: string
  readonly admin: string
}

export function identityNames(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${NAMESPACE}/sa-${index}`)
}

/** Everything it says is at the end of an error, should it not start. */
export function startCA(workshop: Workshop, { ca, identities }: SoakOptions): Promise<CAProcess> {
  return ca === 'livery' ? startLiveryCA(workshop, identities) : startPeerCA(workshop)
}

async function startLiveryCA(workshop: Workshop, identities: number): Promise<CAProcess> {
  const port = await freePort()
  const address = `127.0.0.1:${port}`
  const grants = [{ token: 'soak', identity: AGENT, impersonates: [range(identities)] }]
  await writeFile(join(workshop.folder, 'grants.yaml'), JSON.stringify(grants))
  await writeFile(join(workshop.folder, 'token'), 'soak')
  const args = ['ca', '--listen', address, '--dir', 'ca', '--tokens', 'grants.yaml']
  const { server } = await workshop.start(LIVERY, args, () => accepts(port))
  const config = { plugin: 'citadel', address, rootCert: 'ca/root.pem', tokenFile: 'token', impersonate: true }
  return { pid: server.pid, config }
}

async function startPeerCA(workshop: Workshop): Promise<CAProcess> {
  const program = pathOf(await findPrograms(process.env['LIVERY_PEERS']), 'neutralca')
  const { server, answer: address } = await workshop.start(
    program,
    ['--listen', '127.0.0.1:0', '--tls-dir', 'ca'],
    ({ output }) => /^READY (\S+)$/m.exec(output())?.[1],
  )
  return { pid: server.pid, config: { plugin: 'citadel', address, rootCert: 'ca/root.pem' } }
}

/** Resolves when its admin endpoint answers; the certificates may come later. */
export async function startAgent(workshop: Workshop, ca: CAProcess, options: SoakOptions): Promise<AgentProcess> {
  const port = await freePort()
  const admin = `127.0.0.1:${port}`
  const socket = join(workshop.folder, 'sds.sock')
  const config = {
    trustDomain: 'cluster.local',
    ttl: `${options.ttlMs}ms`,
    ca: ca.config,
    identities: [{ range: range(options.identities) }],
    sockets: [{ path: socket, allow: [`${NAMESPACE}/*`], limits: { streams: 40_000 } }],
    admin: { address: admin },
    drain: '0s',
    log: { level: 'warn' },
  }
  // JSON is YAML.
  await writeFile(join(workshop.folder, 'livery.yaml'), JSON.stringify(config))
  const ready = async () => (await accepts(port)) && (await accepts(socket))
  const { server } = await workshop.start(LIVERY, ['run', '--config', 'livery.yaml'], ready)
  return { pid: server.pid, socket, admin }
}

/** Of a process that runs. */
export async function usageOf({ pid }: Pick<Running, 'pid'>): Promise<{ residentBytes: number; cpuSeconds: number }> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(cause => {
    throw new Error(`Cannot read the CPU time of process ${pid}: it has ended, the agent or the CA`, { cause })
  })
  // Fields 14 and 15 of proc(5), in hundredths; the name before them may hold spaces.
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number)
  return { residentBytes: await residentBytes(pid), cpuSeconds: (user + system) / 100 }
}

/** What the agent's own metrics say of its heap. */
export async function heapBytes({ admin }: AgentProcess): Promise<number> {
  const response = await fetch(`http://${admin}/metrics`)
  const [, bytes] = /^nodejs_heap_used_bytes (\S+)$/m.exec(await response.text()) ?? []
  return Number(bytes)
}

function range(identities: number): string {
  return `${NAMESPACE}/sa-{0..${identities - 1}}`
}

/** A port of this machine, or the path of a socket. */
async function accepts(at: number | string): Promise<true | undefined> {
  const connection = typeof at === 'number' ? connect(at, '127.0.0.1') : connect(at)
  const { promise, resolve } = Promise.withResolvers<true | undefined>()
  connection.once('connect', () => resolve(true)).once('error', () => resolve(undefined))
  const answer = await promise
  connection.destroy()
  return answer
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('the listener has no port')
  return address.port
}

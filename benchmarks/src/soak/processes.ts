/** The agent as its users start it, and a CA in another process. */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '@livery/test-support'
import { accepts } from '../peers/listeners.ts'
import { cpuSeconds, residentBytes } from '../peers/proc.ts'
import { findPrograms } from '../peers/programs.ts'
import { startCA as startNeutralCA } from '../peers/servers.ts'
import type { Running, Workdir } from '../peers/workdir.ts'
import { FLOOD_PLANS } from './floods.ts'
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

/** Debian's `nobody` as the uid of the attacker, and the one name that it is allowed. */
export const ATTACKER = { uid: 65_534, name: `${NAMESPACE}/attacker` }

export function identityNames(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${NAMESPACE}/sa-${index}`)
}

/** A failed start rejects with the end of the output. */
export function startCA(workdir: Workdir, { ca, identities }: SoakOptions): Promise<CAProcess> {
  return ca === 'livery' ? startLiveryCA(workdir, identities) : startPeerCA(workdir)
}

async function startLiveryCA(workdir: Workdir, identities: number): Promise<CAProcess> {
  const port = await freePort()
  const address = `127.0.0.1:${port}`
  const grants = [{ token: 'soak', identity: AGENT, impersonates: [range(identities), ATTACKER.name] }]
  await writeFile(join(workdir.folder, 'grants.yaml'), JSON.stringify(grants))
  await writeFile(join(workdir.folder, 'token'), 'soak')
  const args = ['ca', '--listen', address, '--dir', 'ca', '--tokens', 'grants.yaml']
  const { server } = await workdir.start(LIVERY, args, () => accepts(port))
  const config = { plugin: 'citadel', address, rootCert: 'ca/root.pem', tokenFile: 'token', impersonate: true }
  return { pid: server.pid, config }
}

async function startPeerCA(workdir: Workdir): Promise<CAProcess> {
  const programs = await findPrograms(process.env['LIVERY_PEERS'])
  const { server, address, root } = await startNeutralCA({ programs }, workdir)
  return { pid: server.pid, config: { plugin: 'citadel', address, rootCert: root } }
}

/** Resolves once the agent's admin endpoint answers; certificates may come later. */
export async function startAgent(workdir: Workdir, ca: CAProcess, options: SoakOptions): Promise<AgentProcess> {
  const port = await freePort()
  const admin = `127.0.0.1:${port}`
  const run = join(workdir.folder, 'run')
  const socket = join(run, 'sds.sock')
  await mkdir(run)
  if (options.attack) await chmod(workdir.folder, 0o711)
  const config = {
    trustDomain: 'cluster.local',
    ttl: `${options.ttlMs}ms`,
    ca: ca.config,
    identities: [{ range: range(options.identities) }, ...(options.attack ? [ATTACKER.name] : [])],
    sockets: [
      {
        path: socket,
        allow: [`${NAMESPACE}/*`],
        ...(options.attack ? OPEN : {}),
      },
    ],
    admin: { address: admin },
    drain: '0s',
    log: { level: 'warn' },
  }
  // JSON is YAML.
  await writeFile(join(workdir.folder, 'livery.yaml'), JSON.stringify(config))
  const ready = async () => (await accepts(port)) && (await accepts(socket))
  const { server } = await workdir.start(LIVERY, ['run', '--config', 'livery.yaml'], ready)
  return { pid: server.pid, socket, admin }
}

/** Every uid can connect; the attackers get one name. */
const OPEN = {
  mode: '0666',
  callers: [
    { uid: process.getuid?.() },
    ...[ATTACKER, ...FLOOD_PLANS].map(({ uid }) => ({ uid, allow: [ATTACKER.name] })),
  ],
}

/** The usage of a running process. */
export async function usageOf({ pid }: Pick<Running, 'pid'>): Promise<{ residentBytes: number; cpuSeconds: number }> {
  const cpu = await cpuSeconds(pid).catch(cause => {
    throw new Error(`Cannot read the CPU time of process ${pid}: it has ended, the agent or the CA`, { cause })
  })
  return { residentBytes: await residentBytes(pid), cpuSeconds: cpu }
}

/**
 * The size of the agent's heap by its own metrics; NaN if they could not be read. The agent drops a connection when it needs
 * the room, as in a flood of dumps; a scraper would try again at its next interval.
 */
export async function heapBytes({ admin }: AgentProcess): Promise<number> {
  const metrics = await fetch(`http://${admin}/metrics`).then(
    response => response.text(),
    () => '',
  )
  const [, bytes] = /^nodejs_heap_used_bytes (\S+)$/m.exec(metrics) ?? []
  return Number(bytes)
}

function range(identities: number): string {
  return `${NAMESPACE}/sa-{0..${identities - 1}}`
}

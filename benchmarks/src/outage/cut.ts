/** One outage of a running agent's CA, seen by the agent's own metrics. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '@livery/test-support'
import { accepts } from '../peers/listeners.ts'
import { cpuSeconds } from '../peers/proc.ts'
import { Workdir } from '../peers/workdir.ts'
import { CuttableLink } from './cuttable-link.ts'
import type { OutageOptions } from './options.ts'

const AGENT = 'spiffe://cluster.local/ns/livery/sa/node'
const NAMESPACE = 'spiffe://cluster.local/ns/outage/sa'
const SAMPLE_MS = 200
/** Longer than any backoff. */
const BACK_WITHIN_MS = 300_000

interface Observed {
  /** The mean time that an identity was without a certificate. */
  readonly missingSeconds: number
  /** The time from when the CA was reachable again until every identity had a certificate. */
  readonly backAfterSeconds: number
  /** CPU used in that time by the agent and by the CA, on all threads, in steps of 10 ms: less sensitive to other load. */
  readonly agentCpuSeconds: number
  readonly caCpuSeconds: number
  readonly calls: number
  /** The peak of calls a second after the end of the outage. */
  readonly highestRate: number
}

interface Sample {
  readonly at: number
  readonly available: number
  readonly calls: number
}

/** Runs the agent of the working copy in `folder`. */
export async function cut(folder: string, { identities, ttlMs, cutMs, manner }: OutageOptions): Promise<Observed> {
  await using workdir = new Workdir()
  const ca = await startCA(workdir, folder, identities)
  await using link = await CuttableLink.open(ca.port)
  const agent = await startAgent(workdir, folder, { port: link.port, identities, ttlMs })
  const sample = () => look(agent.admin)
  const cpu = async () => ({ agent: await cpuSeconds(agent.pid), ca: await cpuSeconds(ca.pid) })
  while ((await sample()).available < identities) await sleep(SAMPLE_MS)
  // Renewals are spread out after one lifetime.
  await sleep(ttlMs)
  const before = await sample()
  await link.cut(manner)
  const during = await samplesUntil(sample, ({ at }) => at >= before.at + cutMs)
  const cpuBefore = await cpu()
  await link.restore()
  const restoredAt = performance.now()
  const after = await samplesUntil(sample, ({ at, available }) => {
    if (at > restoredAt + BACK_WITHIN_MS) throw new Error(`only ${available} identities were back after 5 minutes`)
    return available === identities
  })
  const cpuAfter = await cpu()
  const back = after.at(-1) ?? before
  const last = during.at(-1) ?? before
  const later = await samplesUntil(sample, ({ at }) => at >= back.at + 10_000)
  return {
    missingSeconds: missingSeconds([before, ...during, ...after], identities),
    backAfterSeconds: (back.at - restoredAt) / 1_000,
    agentCpuSeconds: cpuAfter.agent - cpuBefore.agent,
    caCpuSeconds: cpuAfter.ca - cpuBefore.ca,
    calls: last.calls - before.calls,
    highestRate: highestRate([last, ...after, ...later]),
  }
}

interface StartedCA {
  readonly pid: number
  readonly port: number
}

async function startCA(workdir: Workdir, folder: string, identities: number): Promise<StartedCA> {
  const port = await freePort()
  const grants = [{ token: 'outage', identity: AGENT, impersonates: [range(identities)] }]
  await writeFile(join(workdir.folder, 'grants.yaml'), JSON.stringify(grants))
  await writeFile(join(workdir.folder, 'token'), 'outage')
  const args = ['ca', '--listen', `127.0.0.1:${port}`, '--dir', 'ca', '--tokens', 'grants.yaml']
  const { server } = await workdir.start(program(folder), args, () => accepts(port))
  return { pid: server.pid, port }
}

interface StartedAgent {
  readonly pid: number
  /** The address of its admin endpoint. */
  readonly admin: string
}

async function startAgent(
  workdir: Workdir,
  folder: string,
  { port, identities, ttlMs }: { readonly port: number; readonly identities: number; readonly ttlMs: number },
): Promise<StartedAgent> {
  const adminPort = await freePort()
  const config = {
    trustDomain: 'cluster.local',
    ttl: `${ttlMs}ms`,
    ca: {
      plugin: 'citadel',
      address: `127.0.0.1:${port}`,
      rootCert: 'ca/root.pem',
      tokenFile: 'token',
      impersonate: true,
    },
    identities: [{ range: range(identities) }],
    sockets: [{ path: 'sds.sock', allow: [`${NAMESPACE}/*`] }],
    admin: { address: `127.0.0.1:${adminPort}` },
    drain: '0s',
    log: { level: 'error' },
  }
  // JSON is YAML.
  await writeFile(join(workdir.folder, 'livery.yaml'), JSON.stringify(config))
  const { server } = await workdir.start(program(folder), ['run', '--config', 'livery.yaml'], () => accepts(adminPort))
  return { pid: server.pid, admin: `127.0.0.1:${adminPort}` }
}

async function samplesUntil(sample: () => Promise<Sample>, isLast: (sample: Sample) => boolean): Promise<Sample[]> {
  const samples: Sample[] = []
  for (;;) {
    const next = await sample()
    samples.push(next)
    if (isLast(next)) return samples
    await sleep(SAMPLE_MS)
  }
}

async function look(admin: string): Promise<Sample> {
  const at = performance.now()
  const text = await (await fetch(`http://${admin}/metrics`)).text()
  const value = (series: RegExp) => Number(series.exec(text)?.[1] ?? 0)
  return {
    at,
    available: value(/^livery_identities\{state="available"\} (\S+)$/m),
    calls: value(/^istio_agent_num_outgoing_requests\{request_type="csr"\} (\S+)$/m),
  }
}

function missingSeconds(samples: readonly Sample[], identities: number): number {
  let missing = 0
  for (const [index, { at, available }] of samples.entries()) {
    const next = samples[index + 1]
    if (next) missing += (identities - available) * (next.at - at)
  }
  return missing / identities / 1_000
}

function highestRate(samples: readonly Sample[]): number {
  const rates = samples.map(({ at, calls }) => {
    const second = samples.findLast(other => other.at <= at + 1_000)
    return second ? second.calls - calls : 0
  })
  return Math.max(...rates)
}

function program(folder: string): string {
  return join(folder, 'packages/agent/bin/livery.js')
}

function range(identities: number): string {
  return `${NAMESPACE}/sa-{0..${identities - 1}}`
}

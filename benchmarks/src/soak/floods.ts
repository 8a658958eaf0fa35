/** Every kind of frame with every number of connections: the wait of other callers, and the growth of the agent. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { FLOODS } from '../../../packages/sds-server/test/floods.ts'
import type { FloodOrder } from './flooder.ts'

/** One flood of a caller without a history: a caller that flooded is throttled. */
interface FloodPlan {
  readonly flood: string
  readonly connections: number
  readonly uid: number
}

const FLOOD_BYTES = 25_000_000
const CONNECTIONS = [8, 128, 400]
const FIRST_UID = 61_000
/** The client reports once a second, and the last answers of a flood arrive with the next report. */
const EACH_MS = 2_000
const PAUSE_MS = 1_200
const AT_PEACE_MS = 60_000

export const FLOOD_PLANS: readonly FloodPlan[] = CONNECTIONS.flatMap(connections =>
  FLOODS.map(({ name }) => ({ flood: name, connections })),
).map((plan, index) => ({ ...plan, uid: FIRST_UID + index }))

export function describeFlood({ flood, connections }: FloodPlan): string {
  return `${flood}, ${connections} connections`
}

/** The agent's highest resident memory without a flood, MB: its heap fills and empties about once in 40 seconds. */
export async function highestAtPeace({ pid }: { readonly pid: number }): Promise<number> {
  await forgetHighest(pid)
  await sleep(AT_PEACE_MS)
  return await memoryMB(pid, 'VmHWM')
}

/** Resolves with the growth of the agent's resident memory, MB: the peak in the flood over the peak before it or at peace. */
export async function floodAgent(
  agent: { readonly pid: number; readonly socket: string },
  { uid, flood, connections }: FloodPlan,
  atPeaceMB: number,
): Promise<number> {
  await forgetHighest(agent.pid)
  const before = Math.max(atPeaceMB, await memoryMB(agent.pid, 'VmRSS'))
  const flooder = fork(new URL('flooder.ts', import.meta.url), { execArgv: process.execArgv })
  flooder.send({ socket: agent.socket, uid, flood, connections, bytes: FLOOD_BYTES } satisfies FloodOrder)
  await once(flooder, 'message')
  await sleep(EACH_MS)
  const ended = once(flooder, 'exit')
  flooder.kill('SIGKILL')
  await ended
  await sleep(PAUSE_MS)
  return Math.max(0, (await memoryMB(agent.pid, 'VmHWM')) - before)
}

/** Resets the peak: proc_pid_clear_refs(5). */
async function forgetHighest(pid: number): Promise<void> {
  await writeFile(`/proc/${pid}/clear_refs`, '5')
}

/** A field of proc_pid_status(5). */
async function memoryMB(pid: number, field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  const [, kilobytes] = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status) ?? []
  return Number(kilobytes) / 1_000
}

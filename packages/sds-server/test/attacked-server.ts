/** A server in a process of its own, whose memory a test measures while it is attacked. Its callers have the uid that the test sets. */
import { readFileSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { SystemClock } from '@livery/core'
import type { GivenLimits } from '../src/budget/socket-limits.ts'
import { createSdsServer } from '../src/sds-server.ts'
import { MemorySource } from './memory-source.ts'
import { NEVER_ISSUED, WEB } from './running-server.ts'

export interface AttackedOptions {
  readonly path: string
  readonly limits: GivenLimits
  /** Bytes of comment in the trust bundle. */
  readonly padding: number
}

/** `uid`: connections that come from now on are of this caller. `report`: as it is, after some turns of the event loop. */
export type AttackedOrder = { readonly uid: number } | 'report'

export interface AttackedReport {
  /** Resident memory now, and the most that it was, bytes. */
  readonly rss: number
  readonly highest: number
  readonly connections: number
  readonly streams: number
}

/** What was sent before a report is read, and answered. */
const TURNS_PER_REPORT = 20

const options: AttackedOptions = JSON.parse(process.argv[2] ?? '')
let uid = 0
const source = await MemorySource.create(WEB)
source.setBundle('cluster.local', { padding: options.padding })
source.add(NEVER_ISSUED)
const server = await createSdsServer({
  sockets: [{ path: options.path, allow: [WEB, NEVER_ISSUED], limits: options.limits, workloadApi: true }],
  source,
  clock: new SystemClock(),
  readPeerCredentials: () => ({ pid: 1, uid, gid: uid }),
  fetchWaitMs: 60_000,
  drainMs: 0,
})

/** VmHWM of proc_pid_status(5); getrusage(2) has that of the parent, too. */
function highestRss(): number {
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
  return Number(kilobytes) * 1_024
}

process.on('message', async (order: AttackedOrder) => {
  if (order !== 'report') {
    uid = order.uid
    process.send?.('set')
    return
  }
  for (let turn = 0; turn < TURNS_PER_REPORT; turn++) await setImmediate()
  const { connections, streams } = server.sockets()[0] ?? { connections: 0, streams: 0 }
  process.send?.({
    rss: process.memoryUsage.rss(),
    highest: highestRss(),
    connections,
    streams,
  } satisfies AttackedReport)
})
process.send?.('listening')

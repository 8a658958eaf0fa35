/** A server in a separate process, whose memory a test measures while it is attacked. Its callers have the uid that the test sets. */
import { readFileSync, writeFileSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { SystemClock } from '@livery/core/plugin'
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

/**
 * `uid`: connections that come from now on are of this caller, and `highest` and `longestTurnMs` start again. `report`: as it is, after
 * some turns of the event loop.
 */
export type AttackedOrder = { readonly uid: number } | 'report'

export interface AttackedReport {
  /** Resident memory now, and the most that it was, bytes. */
  readonly rss: number
  readonly highest: number
  /** CPU of the longest turn of the event loop, which does not count what other processes take. */
  readonly longestTurnMs: number
  readonly connections: number
  readonly streams: number
}

/** The turns in which bytes that were sent before a report are read and answered. */
const TURNS_PER_REPORT = 20

const options: AttackedOptions = JSON.parse(process.argv[2] ?? '')
let uid = 0
let longestTurnMs = 0
let usedMs = 0
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

/** VmHWM of proc_pid_status(5); getrusage(2) includes the parent's. */
function highestRss(): number {
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
  return Number(kilobytes) * 1_024
}

/** An unreferenced immediate runs after each poll, and never keeps the event loop from waiting. */
function watchTurns(): void {
  const { user, system } = process.threadCpuUsage()
  const now = (user + system) / 1_000
  longestTurnMs = Math.max(longestTurnMs, now - usedMs)
  usedMs = now
  setImmediate(watchTurns).unref()
}

process.on('message', async (order: AttackedOrder) => {
  if (order !== 'report') {
    uid = order.uid
    longestTurnMs = 0
    // Sets VmHWM to what it is now.
    writeFileSync('/proc/self/clear_refs', '5')
    process.send?.('set')
    return
  }
  for (let turn = 0; turn < TURNS_PER_REPORT; turn++) await nextTurn()
  const { connections, streams } = server.sockets()[0] ?? { connections: 0, streams: 0 }
  process.send?.({
    rss: process.memoryUsage.rss(),
    highest: highestRss(),
    longestTurnMs,
    connections,
    streams,
  } satisfies AttackedReport)
})
watchTurns()
process.send?.('listening')

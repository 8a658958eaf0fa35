/** The overview of the page: what is about to break. It looks at every identity once, with turns for other work in between. */
import type { IdentityEntry } from '@livery/core'
import type { AdminSource } from '../admin/admin-source.ts'
import { Diagnosis, lookAtAll, momentOf } from '../diagnosis/diagnosis.ts'
import type { Rejection } from '../diagnosis/facts.ts'
import { Lowest } from '../diagnosis/lowest.ts'
import { isUnready } from '../diagnosis/problem.ts'
import { IdentitySummary } from '../observe/identity-summary.ts'
import type { LoopTurns } from '../observe/loop-turns.ts'
import { memoryLimit } from '../observe/process-metrics.ts'
import { formatLogLevels } from '../schema/log-level.ts'
import { problemRow } from './problem-row.ts'
import type { PageCA, PageCaller, PageOverview, PageProcess, PageSocket, PageStore } from './state.ts'

const MAX_CALLERS = 100
const MIB = 1024 * 1024

/** Calls `onEntry` with each identity, in its state at that moment. */
export async function composeOverview(
  source: AdminSource,
  rejections: readonly Rejection[],
  turns: LoopTurns,
  onEntry: (entry: IdentityEntry) => void,
): Promise<PageOverview> {
  const diagnosis = new Diagnosis(source)
  const summary = new IdentitySummary(momentOf(source))
  const newest = new NewestFailure()
  await lookAtAll(source, turns, entry => {
    diagnosis.look(entry)
    summary.add(entry)
    newest.look(entry)
    onEntry(entry)
  })
  const problems = diagnosis.all(rejections)
  const callers = await busiestCallers(source, turns)
  const pods = source.pods?.()
  const store = source.store()
  const { leastLasting } = summary
  await turns.next()
  return {
    phase: source.phase(),
    problems: problems.flatMap(problemRow),
    ready: !problems.some(problem => isUnready(problem, 'default')),
    strictReady: !problems.some(problem => isUnready(problem, 'strict')),
    counts: countsOf(summary),
    failing: Object.fromEntries([...summary.failing].filter(([, count]) => count > 0)),
    ...(leastLasting !== undefined && { lastsUntil: leastLasting }),
    sockets: socketRows(source),
    ...callers,
    refusedConnections: await source.refusedConnections(),
    ...(pods && { pods: { known: pods.known, ...(pods.problem !== undefined && { problem: pods.problem }) } }),
    ca: caRow(source, summary, newest),
    keyGenerator: source.keyGenerator.name,
    plannedPerMinute: source.plannedPerMinute(),
    process: processRow(),
    ...(store && { store: storeRow(store) }),
    logLevel: formatLogLevels(source.log.levels()),
  }
}

/** The newest failure of the held identities. */
class NewestFailure {
  #failed: IdentityEntry | undefined

  look(entry: IdentityEntry): void {
    const { lastFailure } = entry
    if (lastFailure?.code === 'revoked') return
    if (lastFailure && lastFailure.at > (this.#failed?.lastFailure?.at ?? Number.NEGATIVE_INFINITY))
      this.#failed = entry
  }

  get error(): PageCA['lastError'] {
    if (!this.#failed?.lastFailure) return undefined
    const { code, message, at } = this.#failed.lastFailure
    return { code, text: message, at, identity: this.#failed.identity }
  }
}

function countsOf({ states }: IdentitySummary): PageOverview['counts'] {
  return {
    Initializing: states.get('initializing') ?? 0,
    Available: states.get('available') ?? 0,
    Renewing: states.get('renewing') ?? 0,
    Failing: states.get('failing') ?? 0,
    Expired: states.get('expired') ?? 0,
    Idle: states.get('idle') ?? 0,
  }
}

function socketRows(source: AdminSource): readonly PageSocket[] {
  return (source.sds?.()?.sockets() ?? []).map(({ path, state, reason, connections, streams }) => ({
    path,
    state,
    ...(reason !== undefined && { reason }),
    connections,
    streams,
  }))
}

async function busiestCallers(source: AdminSource, turns: LoopTurns) {
  const busiest = new Lowest<PageCaller>(MAX_CALLERS)
  for (const { key, connections, streams, names } of source.sds?.()?.callers() ?? []) {
    busiest.offer(-connections, { caller: key, connections, streams, names })
    await turns.next()
  }
  const callers = busiest.items()
  return { callers, moreCallers: busiest.count - callers.length }
}

function caRow(source: AdminSource, summary: IdentitySummary, newest: NewestFailure): PageCA {
  const { queued, inFlight, window, pause } = source.schedule()
  const { error } = newest
  const { caClockAhead, lastIssuedAt } = summary
  return {
    plugin: source.caPlugin,
    inFlight,
    window,
    queued,
    ...(pause && { pause: { reason: pause.reason, ...(pause.until !== undefined && { until: pause.until }) } }),
    ...(lastIssuedAt !== undefined && { lastIssuedAt }),
    ...(error && { lastError: error }),
    ...(caClockAhead !== undefined && { clockAheadMs: caClockAhead }),
  }
}

function storeRow({ directory, unwritten, failure }: NonNullable<ReturnType<AdminSource['store']>>): PageStore {
  return { directory, unwritten, ...(failure !== undefined && { failure }) }
}

/** Rounded to mebibytes: the numbers would otherwise change with every look. */
function processRow(): PageProcess {
  const { rss, heapUsed } = process.memoryUsage()
  return {
    rssBytes: wholeMiB(rss),
    heapUsedBytes: wholeMiB(heapUsed),
    memoryLimitBytes: memoryLimit(),
  }
}

function wholeMiB(bytes: number): number {
  return Math.round(bytes / MIB) * MIB
}
